"""Zero-shot classification, against the protocol one example at a time."""

import json

import numpy as np
import pytest
from etils import epath

from tests.evaluators import text_toy
from vit_jax.config import evaluator_declarations, schema
from vit_jax.data import sources
from vit_jax.errors import UserError
from vit_jax.evaluators import build, zeroshot
from vit_jax.prompts import class_names, ensemble, templates


def entry(prompts="clip", **keys):
  keys = {"dataset": text_toy.DATA, "split": "test"} | keys
  keys.setdefault("preprocess", "decode")
  return schema.ZeroShotEval(
    type="zeroshot",
    prompts=prompts,
    batch_size=16,
    datasets={"toy": schema.ZeroShotDataset(**keys)},
  )


def test_each_template_is_said_with_its_datasets():
  data = text_toy.DATA
  german, english = ("ein {}",), ("a {}", "one {}")
  words = {"de": german, "en": english, "en2": english}
  one = schema.ZeroShotEval(
    type="zeroshot",
    datasets={
      name: schema.ZeroShotDataset(dataset=data, templates=templates)
      for name, templates in words.items()
    },
  )
  said = evaluator_declarations.declarations(text_toy.config(words=one))
  protocol = said["words"]["protocol"]
  assert "in 'ein {}' (de) or 'a {}' + 'one {}' (en, en2), each" in protocol
  assert f"; en is split 'validation' of {data}; en2 is" in protocol
  alone = evaluator_declarations.declarations(text_toy.config(words=entry()))
  assert "its name in the templates clip80, each" in alone["words"]["protocol"]


def evaluator(make_context, one, **kwargs):
  config = text_toy.config(words=one)
  build.check(config)
  context = make_context(
    config=config, outputs=text_toy.outputs, num_classes=None, **kwargs
  )
  return build.build("words", one, context)


def oracle(one, names):
  """Labels and logits of every example by the published protocol."""
  params = text_toy.state().eval_params
  data = one.datasets["toy"]
  rows = []
  for found in ensemble.prompts(
    names,
    templates.read(data.templates, key="k"),
    style=one.prompts,
    key="k",
  ):
    mean = np.mean([text_toy.embed_text(params, t) for t in found], axis=0)
    rows.append(mean / np.linalg.norm(mean))
  source = sources.open_source(text_toy.DATA, "test", data_dir=None)
  read = source.read(np.arange(source.num_examples))
  images = [text_toy.embed_image(params, image) for image in read["image"]]
  return read["label"], text_toy.SCALE * np.array(images) @ np.array(rows).T


@pytest.mark.parametrize("prompts", ["clip", "siglip"])
def test_metrics_are_those_of_the_protocol(make_context, prompts, tmp_path):
  path = tmp_path / "names.json"
  words = ["Ant, Emmet", ["bee", "wasp"], "cat", "Dog.", "an Owl"]
  path.write_text(json.dumps(words))
  one = entry(prompts, class_names=str(path), templates=("clip7", "{}"))
  found = evaluator(make_context, one).run(text_toy.state(), 3)
  label, logits = oracle(one, class_names.read(str(path), key="k"))
  order = np.argsort(-logits, axis=1)
  loss = np.log(np.exp(logits).sum(1)) - logits[np.arange(len(label)), label]
  assert found == pytest.approx(
    {
      "zeroshot/toy/top1": (order[:, 0] == label).mean(),
      "zeroshot/toy/loss": loss.mean(),
      "zeroshot/toy/num_examples": 50,
    },
    rel=1e-5,
  )
  assert 0 < found["zeroshot/toy/top1"] < 1


def test_names_of_the_dataset_are_used_unless_others_are_given(make_context):
  one = entry(templates=("a {}",))
  found = evaluator(make_context, one).run(text_toy.state(), 3)
  label, logits = oracle(one, [(f"class {i}",) for i in range(5)])
  assert found["zeroshot/toy/top1"] == (logits.argmax(1) == label).mean()


def test_classes_of_the_same_tokens_are_doubted(make_context, caplog):
  evaluator(make_context, entry(templates=("a {}",)))
  assert not caplog.messages
  # The names come after the 47 bytes that fit.
  evaluator(make_context, entry(templates=("a" * 40 + " {}", "{}")))
  (line,) = caplog.messages
  assert "config.evals.words.datasets.toy: " in line
  assert "class 0' and 'a" in line and "and 3 more are the same tokens" in line
  assert "cut after 48 tokens" in line


def test_devices_change_nothing(make_context, make_mesh):
  one = entry()
  expected = evaluator(make_context, one).run(text_toy.state(), 3)
  spread = evaluator(make_context, one, mesh=make_mesh(4))
  found = spread.run(text_toy.state(), 3)
  assert found == pytest.approx(expected, rel=1e-6)


def test_predictions_are_kept_for_the_report(make_context, tmp_path):
  one = entry(templates=("{}",))
  workdir = epath.Path(tmp_path)
  metrics = evaluator(make_context, one, workdir=workdir).run(
    text_toy.state(), 3
  )
  place = tmp_path / "evaluations" / "words" / "toy" / "3"
  with np.load(place / "predictions.npz") as kept:
    right = kept["label"] == kept["prediction"]
  assert right.mean() == metrics["zeroshot/toy/top1"]
  names = json.loads((place / "classes.json").read_text())
  assert names == [f"class {i}" for i in range(5)]


def test_a_mean_is_of_prompts_of_unit_length():
  rng = np.random.default_rng(0)
  made = {}

  def embed(texts):
    for text in texts:
      x = rng.normal(size=6).astype(np.float32)
      made[text] = x / np.linalg.norm(x)
    return np.stack([made[text] for text in texts])

  prompts = [["a", "b", "c"], ["d"], ["e", "f"]]
  found = zeroshot.class_embeddings(prompts, embed)
  for row, texts in zip(found, prompts, strict=True):
    mean = np.mean([made[text] for text in texts], axis=0)
    np.testing.assert_allclose(row, mean / np.linalg.norm(mean), rtol=1e-6)


@pytest.mark.parametrize(
  ("keys", "words"),
  [
    ({"class_names": "cifar10"}, ["has 10 classes", "has 5"]),
    ({"class_names": "nowhere.txt"}, ["nowhere.txt", "class_names"]),
    ({"templates": ()}, ["templates is empty"]),
    ({"templates": ("a photo",)}, ["a photo", "templates"]),
    ({"preprocess": "decode|tokenize"}, ["preprocess"]),
    ({"dataset": "generated:size=8,classes=5"}, ["no names for its classes"]),
    ({"dataset": "captions", "preprocess": "decode|resize"}, ["data_dir"]),
  ],
)
def test_what_cannot_be_measured_is_said(make_context, keys, words):
  with pytest.raises(UserError) as caught:
    evaluator(make_context, entry(**keys))
  for word in words:
    assert word in str(caught.value)


def test_a_model_without_text_is_refused():
  config = schema.Config(evals={"words": entry()})
  with pytest.raises(UserError, match="words of type \"zeroshot\" .*'vit'"):
    build.check(config)


def test_a_tokenizer_is_asked_for(make_context):
  one = entry()
  config = text_toy.config(words=one)
  train = config.train.model_copy(update={"tokenizer": None})
  config = config.model_copy(update={"train": train})
  context = make_context(
    config=config, outputs=text_toy.outputs, num_classes=None
  )
  with pytest.raises(UserError, match="words needs a tokenizer"):
    build.build("words", one, context)


def test_damaged_parameters_are_said(make_context):
  state = text_toy.state()
  state.eval_params["text"][:] = np.nan
  with pytest.raises(UserError, match="NaN or infinite"):
    evaluator(make_context, entry()).run(state, 3)
