"""Retrieval, against all similarities sorted in NumPy."""

import json

import numpy as np
import pytest
from etils import epath
from PIL import Image

from tests.evaluators import text_toy
from vit_jax.config import schema
from vit_jax.data import sources
from vit_jax.errors import UserError
from vit_jax.evaluators import build

WORDS = ("red", "green", "blue", "small", "large", "old", "new")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
  """A folder of 30 images with one to three captions each, none twice."""
  root = tmp_path_factory.mktemp("pairs") / "validation"
  root.mkdir()
  rng = np.random.default_rng(0)
  lines = ["image,caption"]
  side = text_toy.SIZE
  for number in range(30):
    pixels = rng.integers(0, 256, (side, side, 3), np.uint8)
    Image.fromarray(pixels).save(root / f"{number:02}.png")
    for caption in range(1 + number % 3):
      words = " ".join(rng.choice(WORDS, 3))
      lines.append(f"{number:02}.png,{words} thing {number} {caption}")
  (root / "captions.csv").write_text("\n".join(lines) + "\n")
  return str(root.parent)


def entry(**keys):
  return schema.RetrievalEval(
    type="retrieval",
    batch_size=16,
    datasets={
      "val": schema.RetrievalDataset(preprocess="decode|central_crop", **keys)
    },
  )


def evaluator(make_context, pairs, one=None, **kwargs):
  one = one or entry()
  config = text_toy.config(find=one).model_copy(update={"data_dir": pairs})
  build.check(config)
  context = make_context(
    config=config, outputs=text_toy.outputs, num_classes=None, **kwargs
  )
  return build.build("find", one, context)


def oracle(pairs):
  """Similarities [images, texts], and the image of each text."""
  params = text_toy.state().eval_params
  source = sources.open_source("captions", "validation", data_dir=pairs)
  ids = np.arange(source.num_examples)
  images = []
  for name in source.names(ids):
    pixels = np.asarray(Image.open(name))
    images.append(text_toy.embed_image(params, pixels))
  texts, owner = [], []
  for number, captions in enumerate(source.captions(ids)):
    texts += [text_toy.embed_text(params, text) for text in captions]
    owner += [number] * len(captions)
  return np.array(images) @ np.array(texts).T, np.array(owner)


def expected(pairs):
  similarity, owner = oracle(pairs)
  metrics = {"num_images": len(similarity), "num_texts": len(owner)}
  for rank in (1, 5, 10):
    best = np.argsort(-similarity, axis=1)[:, :rank]
    hits = (owner[best] == np.arange(len(best))[:, None]).any(1)
    metrics[f"image_to_text_r{rank}"] = hits.mean()
    best = np.argsort(-similarity, axis=0)[:rank]
    metrics[f"text_to_image_r{rank}"] = (best == owner).any(0).mean()
  return {f"retrieval/val/{name}": value for name, value in metrics.items()}


def test_recalls_are_those_of_all_similarities(make_context, pairs):
  found = evaluator(make_context, pairs).run(text_toy.state(), 4)
  assert found == pytest.approx(expected(pairs))
  assert 0 < found["retrieval/val/image_to_text_r10"] < 1


def test_devices_change_nothing(make_context, make_mesh, pairs):
  spread = evaluator(make_context, pairs, mesh=make_mesh(4))
  found = spread.run(text_toy.state(), 4)
  assert found == pytest.approx(expected(pairs))


def test_examples_are_kept_for_the_report(make_context, pairs, tmp_path):
  one = evaluator(make_context, pairs, workdir=epath.Path(tmp_path))
  one.run(text_toy.state(), 4)
  place = tmp_path / "evaluations" / "find" / "val" / "4"
  kept = json.loads((place / "retrieval.json").read_text())
  similarity, owner = oracle(pairs)
  source = sources.open_source("captions", "validation", data_dir=pairs)
  captions = source.captions(np.arange(source.num_examples))
  texts = [text for one in captions for text in one]
  for query in kept["text_to_image"]:
    column = texts.index(query["text"])
    best = np.argsort(-similarity[:, column])[:5]
    answers = query["answers"]
    assert [answer["image"] for answer in answers] == best.tolist()
    assert [answer["right"] for answer in answers] == (
      best == owner[column]
    ).tolist()
    for answer in answers:
      pixels = np.asarray(Image.open(place / f"images/{answer['image']}.png"))
      name = source.names(np.array([answer["image"]]))[0]
      assert np.array_equal(pixels, np.asarray(Image.open(name)))
  for query in kept["image_to_text"]:
    best = np.argsort(-similarity[query["image"]])[:5]
    assert [a["text"] for a in query["answers"]] == [texts[i] for i in best]
    assert query["right"] == (owner[best[0]] == query["image"])
    assert (place / f"images/{query['image']}.png").exists()
  assert {True, False} == {query["right"] for query in kept["image_to_text"]}


def test_few_candidates_are_all_found(make_context, pairs):
  one = entry(split="validation[:6]")
  found = evaluator(make_context, pairs, one).run(text_toy.state(), 4)
  assert found["retrieval/val/num_images"] == 6
  assert found["retrieval/val/text_to_image_r10"] == 1


def test_data_without_captions_are_refused(make_context, pairs):
  one = entry(dataset="generated:size=8", split="test")
  with pytest.raises(UserError, match="'generated:size=8' has no captions"):
    evaluator(make_context, pairs, one)


def test_a_model_without_text_is_refused():
  config = schema.Config(evals={"find": entry()})
  with pytest.raises(UserError, match="has no text tower"):
    build.check(config)
