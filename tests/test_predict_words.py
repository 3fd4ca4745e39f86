"""The predict command with --classes: images classified by words."""

import json

import numpy as np
import pytest
from PIL import Image
from scipy import special

import vit_jax
from tests import experiments
from vit_jax import predict
from vit_jax.config import experiment_file, resolve
from vit_jax.errors import UserError
from vit_jax.train import train


@pytest.fixture(scope="module", params=["clip", "siglip"])
def run(request, repo, tmp_path_factory):
  """The workdir of a smoke run, and images of the size of the network."""
  workdir = tmp_path_factory.mktemp(request.param)
  path = str(repo / "configs" / f"{request.param}.py")
  config = experiment_file.load(path, "smoke")
  config.model.dtype = "float32"  # In bfloat16 a batch changes the last digit.
  config.evals = {}
  config = resolve.resolve(config)
  assert train(config, str(workdir)) == 0
  rng = np.random.default_rng(0)
  side = config.model.image_size
  images = tmp_path_factory.mktemp("images")
  for number in range(3):
    pixels = rng.integers(0, 256, (side, side, 3), np.uint8)
    Image.fromarray(pixels).save(images / f"{number}.png")
  return workdir, sorted(map(str, images.iterdir()))


def answered(capsys, workdir, paths, **options):
  capsys.readouterr()
  code = predict.predict(str(workdir), paths, form="json", **options)
  assert code == 0
  return json.loads(capsys.readouterr().out)


def expected(workdir, paths, texts):
  """Probabilities from the logits that the network gives."""
  model, params = vit_jax.load(str(workdir))
  tokens = vit_jax.load_tokenizer(str(workdir), length=model.text.length)
  images = np.stack([np.asarray(Image.open(path)) for path in paths])
  logits = model.apply({"params": params}, images, tokens(texts))["logits"]
  if model.bias_init is None:
    return special.softmax(np.asarray(logits, np.float64), axis=1)
  return special.expit(np.asarray(logits, np.float64))


def probabilities(document):
  """[images, classes], in the order of the classes."""
  return np.array(
    [
      [
        row["probability"]
        for row in sorted(image["predictions"], key=lambda r: r["label"])
      ]
      for image in document["images"]
    ]
  )


def test_probabilities_are_those_of_the_networks_logits(run, capsys):
  workdir, paths = run
  texts = ["a cat", "a red car", "Stripes!"]
  found = answered(capsys, workdir, paths, classes="a cat,a red car, Stripes!")
  np.testing.assert_allclose(
    probabilities(found), expected(workdir, paths, texts), rtol=1e-3
  )
  sums = probabilities(found).sum(1)
  if found["activation"] == "softmax":
    assert sums == pytest.approx(1)
  names = {row["name"] for row in found["images"][0]["predictions"]}
  assert names == set(texts)


def test_classes_and_templates_may_be_files(run, capsys, tmp_path):
  workdir, paths = run
  (tmp_path / "classes.txt").write_text("cat\nred car\n")
  (tmp_path / "templates.txt").write_text("a {}\n")
  found = answered(
    capsys,
    workdir,
    paths,
    classes=str(tmp_path / "classes.txt"),
    templates=[str(tmp_path / "templates.txt")],
  )
  np.testing.assert_allclose(
    probabilities(found),
    expected(workdir, paths, ["a cat", "a red car"]),
    rtol=1e-3,
  )


def test_classes_of_the_same_tokens_are_doubted(run, capsys, caplog):
  workdir, paths = run
  answered(capsys, workdir, paths, classes="cat,dog")
  assert "same tokens" not in caplog.text
  long = "a " * 200  # The names come after the tokens that fit.
  answered(capsys, workdir, paths, classes=f"{long}cat,{long}dog")
  (line,) = (line for line in caplog.messages if "same tokens" in line)
  assert line.startswith("--classes: ") and "cat' and " in line


def test_an_ensemble_is_one_class(run, capsys):
  workdir, paths = run
  found = answered(
    capsys, workdir, paths, classes="cat,dog", templates=["clip7", "{}"]
  )
  assert probabilities(found).shape == (3, 2)


def test_without_classes_it_asks_for_them(run):
  workdir, paths = run
  with pytest.raises(UserError, match='--classes="a cat,a dog"'):
    predict.predict(str(workdir), paths)


def test_a_checkpoint_without_a_tokenizer_asks_for_one(run, tmp_path, capsys):
  workdir, paths = run
  model, params = vit_jax.load(str(workdir))
  path = str(tmp_path / "towers.npz")
  vit_jax.save(path, model, params)
  with pytest.raises(UserError, match="--tokenizer=PATH"):
    predict.predict(path, paths, classes="a,b")


def test_a_classifier_has_no_use_for_words(tmp_path):
  config = experiments.config(total_steps=2)
  assert train(config, str(tmp_path)) == 0
  with pytest.raises(UserError, match="no text tower.*CLIP or SigLIP"):
    predict.predict(str(tmp_path), ["a.jpg"], classes="a,b")


def test_empty_classes_are_a_sentence(run):
  workdir, paths = run
  with pytest.raises(UserError, match="class 1 has no name"):
    predict.predict(str(workdir), paths, classes="cat,,dog")
