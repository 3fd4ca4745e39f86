"""The convert command: forms there and back, and what it refuses."""

import dataclasses
import os
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest

import vit_jax
from tests import clip_checkpoint
from tests.models import networks
from vit_jax import convert
from vit_jax.config import named_sections
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.pretrained import inference, load, run_files, save, workdir
from vit_jax.pretrained.inference import Inference
from vit_jax.weights import stacking
from vit_jax.weights.contract import Weights

MODEL = named_sections.section(
  "model",
  variant="Ti/4",
  width=32,
  depth=2,
  num_heads=2,
  mlp_dim=64,
  image_size=16,
  num_classes=3,
)
NAMES = ("cat", "Hündin", "3")
IMAGES = np.random.default_rng(0).integers(0, 256, (4, 16, 16, 3), np.uint8)
DESTINATIONS = {
  "npz": ("model.npz", None),
  "safetensors": ("model.safetensors", None),
  "huggingface": ("model", None),
  "timm": ("model_timm", "timm"),
  "workdir": ("model_run", "workdir"),
}


@pytest.fixture(scope="module")
def network():
  """A network with the GELU that every form can tell, and random weights."""
  module = build.create(
    MODEL.model_copy(update={"gelu": "exact"}), num_classes=3
  )
  params = module.init(jax.random.key(0), IMAGES)["params"]
  params = jax.tree.map(
    lambda x: x + 0.1 * jax.random.normal(jax.random.key(1), x.shape), params
  )
  return module, params


@pytest.fixture(scope="module")
def source(network, tmp_path_factory):
  path = tmp_path_factory.mktemp("source") / "source.npz"
  save.save(str(path), *network, class_names=NAMES)
  return str(path)


def logits(path, images=IMAGES, **options):
  module, params = load.load(str(path), **options)
  return module.apply({"params": params}, images)


@pytest.mark.parametrize("form", DESTINATIONS)
def test_every_form_goes_there_and_back_unchanged(
  form, source, network, tmp_path
):
  name, to = DESTINATIONS[form]
  there, back = str(tmp_path / name), str(tmp_path / "back.npz")
  convert.convert(source, there, to=to)
  convert.convert(there, back)
  before, after = (inference.read(path).weights for path in (source, back))
  # A Hugging Face model's positions are resized as Hugging Face does it.
  resized = {"pos_embedding_resize": after.model.pos_embedding_resize}
  assert after.model == before.model.model_copy(update=resized)
  assert tuple(after.class_names) == NAMES
  jax.tree.map(np.testing.assert_array_equal, after.params, before.params)
  module, params = network
  want = module.apply({"params": params}, IMAGES)
  np.testing.assert_allclose(logits(there), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
  ("to", "words"),
  [
    (None, "timm's directory, as Hugging Face's ViT cannot have model.pool="),
    ("timm", "timm's directory"),
  ],
)
def test_what_hugging_face_lacks_becomes_timms_directory(
  tmp_path, capsys, to, words
):
  model = MODEL.model_copy(update={"pool": "gap"})
  module = build.create(model, num_classes=3)
  params = networks.random_params(module)
  save.save(str(tmp_path / "gap.npz"), module, params, class_names=NAMES)
  there = str(tmp_path / "gap")
  convert.convert(str(tmp_path / "gap.npz"), there, to=to)
  assert f"wrote {there}: {words}" in capsys.readouterr().out
  card = (tmp_path / "gap" / "README.md").read_text()
  assert "library_name: timm" in card
  assert (
    'timm.create_model("local-dir:THIS_DIRECTORY", pretrained=True)' in card
  )
  assert tuple(inference.read(there).weights.class_names) == NAMES
  want = module.apply({"params": params}, IMAGES)
  np.testing.assert_allclose(logits(there), want, rtol=1e-5, atol=1e-6)


def test_a_form_that_is_asked_for_is_not_changed(tmp_path):
  model = MODEL.model_copy(update={"pool": "gap"})
  module = build.create(model, num_classes=3)
  source = str(tmp_path / "gap.npz")
  save.save(source, module, networks.random_params(module))
  words = "Face's ViT cannot have model.pool=.*in the form 'timm'"
  with pytest.raises(UserError, match=words):
    convert.convert(source, str(tmp_path / "gap"), to="huggingface")
  assert not (tmp_path / "gap").exists()


def test_what_neither_form_holds_is_refused_with_both_reasons(tmp_path):
  keys = {"pool": "gap", "representation_size": 8}
  module = build.create(MODEL.model_copy(update=keys), num_classes=3)
  source = str(tmp_path / "source.npz")
  save.save(source, module, networks.random_params(module))
  with pytest.raises(
    UserError, match="model.pool='gap', and timm.*model.representation_size=8"
  ):
    convert.convert(source, str(tmp_path / "out"))
  assert not (tmp_path / "out").exists()


def test_what_timm_does_otherwise_is_said(source, tmp_path, capsys):
  weights = dataclasses.replace(
    inference.read(source).weights,
    preprocess="decode|resize_small(20, method='bicubic')|central_crop",
  )
  workdir.write(str(tmp_path / "run"), Inference(weights, step=7))
  capsys.readouterr()
  convert.convert(
    str(tmp_path / "run"), str(tmp_path / "out.safetensors"), to=None
  )
  said = capsys.readouterr().out
  assert "smoothed there, which 'resize_small' does with antialias=True" in said
  assert "timm.create_model(" in said
  convert.convert(str(tmp_path / "run"), str(tmp_path / "out"))
  said = capsys.readouterr().out
  assert "Hugging Face directory; images that shrink are smoothed" in said


def test_a_directory_gets_a_card(source, tmp_path):
  convert.convert(source, str(tmp_path / "bees"))
  card = (tmp_path / "bees" / "README.md").read_text()
  assert "# bees" in card
  assert "`Hündin`" in card
  assert "from `source.npz`, which does not say" in card


def test_a_card_is_of_the_step_that_was_read_though_the_run_goes_on(
  source, tmp_path, monkeypatch
):
  run, read = tmp_path / "run", inference.read
  workdir.write(run, dataclasses.replace(read(source), step=7))
  (run / "metrics.jsonl").write_text('{"step": 7}\n{"step": 9}\n')

  def read_before_a_save(path):
    found = read(path)
    shutil.copytree(run / "checkpoints/7", run / "checkpoints/9")
    return found

  monkeypatch.setattr(inference, "read", read_before_a_save)
  convert.convert(str(run), str(tmp_path / "bees"))
  card = (tmp_path / "bees" / "README.md").read_text()
  assert "of step 7," in card and "of step 9," not in card


@pytest.mark.parametrize("activation", ["sigmoid", "none"])
@pytest.mark.parametrize("form", DESTINATIONS)
def test_every_form_keeps_how_the_checkpoint_is_used(
  form, activation, source, tmp_path
):
  weights = dataclasses.replace(
    inference.read(source).weights,
    preprocess="decode|resize_small(20)|central_crop",
    activation=activation,
  )
  run = str(tmp_path / "run")
  workdir.write(run, Inference(weights, step=7))
  name, to = DESTINATIONS[form]
  convert.convert(run, str(tmp_path / name), to=to)
  again = inference.read(str(tmp_path / name))
  assert again.step == (7 if form == "workdir" else None)
  assert again.weights.preprocess == weights.preprocess
  assert again.weights.activation == activation


def test_stacked_layers_come_out_one_by_one(network, tmp_path):
  module, params = network
  stacked = str(tmp_path / "stacked")
  weights = Weights(
    stacked,
    MODEL.model_copy(update={"gelu": "exact", "scan_layers": True}),
    stacking.stack_layers(params),
    preprocess="decode|resize",
    activation="softmax",
  )
  workdir.write(stacked, Inference(weights, 1))
  for name in ("a.npz", "a"):
    convert.convert(stacked, str(tmp_path / name))
    np.testing.assert_allclose(
      logits(tmp_path / name),
      module.apply({"params": params}, IMAGES),
      rtol=1e-5,
      atol=1e-6,
    )


def test_images_of_another_size_get_their_positions(source, tmp_path):
  larger = str(tmp_path / "larger.npz")
  convert.convert(source, larger, image_size=24)
  images = np.random.default_rng(1).integers(0, 256, (2, 24, 24, 3), np.uint8)
  np.testing.assert_allclose(
    logits(larger, images), logits(source, images, image_size=24), rtol=1e-6
  )
  assert tuple(inference.read(larger).weights.class_names) == NAMES


def test_a_head_for_other_classes_is_of_zeros_and_has_no_names(
  source, tmp_path
):
  other = str(tmp_path / "other.npz")
  convert.convert(source, other, num_classes=5)
  assert logits(other).shape == (4, 5)
  assert not np.any(logits(other))
  assert inference.read(other).weights.class_names is None


def test_a_line_says_what_was_read_and_what_was_written(
  source, tmp_path, capsys
):
  dst = tmp_path / "model.stablehlo"
  convert.convert(source, str(dst))
  read, wrote = capsys.readouterr().out.splitlines()
  count = sum(x.size for x in jax.tree.leaves(load.load(source)[1]))
  assert "ViT of width 32, depth 2" in read
  assert "at 16 pixels" in read and "3 classes" in read
  assert f"{count:,} parameters" in read
  assert str(dst) in wrote and "StableHLO" in wrote
  exported = jax.export.deserialize(bytearray(dst.read_bytes()))
  np.testing.assert_allclose(
    exported.call(IMAGES), logits(source), rtol=1e-5, atol=1e-6
  )


def test_what_becomes_of_the_tokenizer_of_a_text_tower_is_said(
  repo, tmp_path, capsys
):
  def last_words(src, dst):
    convert.convert(str(src), str(tmp_path / dst))
    return capsys.readouterr().out.rpartition("; ")[2]

  golden = repo / "tests" / "golden" / "huggingface_clip"
  assert last_words(golden, "none") == (
    f"no tokenizer is written, as {golden} has none\n"
  )
  clip = tmp_path / "clip"
  clip_checkpoint.save(clip)
  copied = f"no tokenizer is written; copy its files from {clip}\n"
  named = f"no tokenizer is written; where one is needed, name {clip}\n"
  convert.convert(str(clip), str(tmp_path / "dir"))
  assert capsys.readouterr().out.endswith(copied)
  convert.convert(str(clip), str(tmp_path / "x.npz"))
  assert capsys.readouterr().out.endswith(named)
  run = tmp_path / "run"
  convert.convert(str(clip), str(run), to="workdir")
  run_files.write_tokenizer(run, vit_jax.load_tokenizer(clip))
  convert.convert(str(run), str(tmp_path / "of_run"))
  copied = f"copy its files from {run}/tokenizer\n"
  assert capsys.readouterr().out.endswith(copied)


@pytest.mark.parametrize(
  ("dst", "to"), [("x.safetensors", None), ("x", "timm")]
)
def test_what_timm_lacks_is_offered_as_a_directory(repo, tmp_path, dst, to):
  golden = str(repo / "tests" / "golden" / "huggingface_clip")
  offer = "name without a suffix, in the form 'huggingface'.*Hugging Face"
  with pytest.raises(UserError, match=offer):
    convert.convert(golden, str(tmp_path / dst), to=to)
  convert.convert(golden, str(tmp_path / "x"), to="huggingface")
  assert vit_jax.load(str(tmp_path / "x"))[0] == vit_jax.load(golden)[0]


@pytest.mark.parametrize(
  ("dst", "options", "sentence"),
  [
    ("there.npz", {}, "exists, and nothing is overwritten"),
    ("model.pt", {}, "read but not written"),
    ("model.pt", {"to": "open_clip"}, "read but not written"),
    ("model.bin", {}, "ends in '.bin'"),
    ("model.safetensors", {"to": "npz"}, "another form than --to=npz"),
    ("model.npz", {"to": "timm"}, "another form than --to=timm"),
    ("model.npz", {"dtype": "bfloat16"}, "--dtype is for .stablehlo"),
    ("there.npz/model.npz", {}, "cannot be written"),
    ("there.npz/model.stablehlo", {}, "cannot be written"),
    ("model.npz", {"image_size": 18}, "image_size = 18"),
  ],
)
def test_what_cannot_be_written_is_refused_and_leaves_nothing(
  source, tmp_path, dst, options, sentence
):
  (tmp_path / "there.npz").write_text("mine")
  with pytest.raises(UserError, match=sentence):
    convert.convert(source, str(tmp_path / dst), **options)
  assert [path.name for path in tmp_path.iterdir()] == ["there.npz"]
  assert (tmp_path / "there.npz").read_text() == "mine"


@pytest.mark.parametrize(
  ("words", "sentence"),
  [
    (["a"], "Name two paths"),
    (["not_there", "b.npz"], "not_there does not exist"),
    (["a", "b.npz", "--to=zip"], "zip"),
  ],
)
def test_bad_words_get_a_sentence(repo, tmp_path, words, sentence):
  result = subprocess.run(
    [sys.executable, "-m", "vit_jax.convert", *words],
    env={**os.environ, "PYTHONPATH": str(repo)},
    cwd=tmp_path,
    capture_output=True,
    text=True,
  )
  assert result.returncode == 1
  assert sentence in result.stderr and "Traceback" not in result.stderr
