"""What a checkpoint says of its own use."""

import logging
import shutil

import jax
import numpy as np
import pytest
from etils import epath

from tests.weights import published
from vit_jax.config import named_sections, resolve, schema
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.pretrained import inference, reading, run_files, workdir
from vit_jax.pretrained.inference import Inference
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import npz

MODEL = named_sections.section(
  "model",
  variant="Ti/4",
  width=32,
  depth=1,
  num_heads=2,
  mlp_dim=64,
  image_size=8,
  num_classes=3,
)


@pytest.mark.parametrize(
  ("name", "preprocess"),
  [
    ("huggingface_clip", schema.ZeroShotDataset().preprocess),
    ("huggingface_siglip", "decode|resize"),
    ("huggingface_vit", "decode|resize"),
  ],
)
def test_a_directory_without_a_processor_says_what_is_taken(
  tmp_path, caplog, name, preprocess
):
  directory = shutil.copytree(published.folder(name), tmp_path / name)
  (directory / "preprocessor_config.json").unlink(missing_ok=True)
  with caplog.at_level(logging.INFO):
    found = inference.read(str(directory))
  assert found.weights.preprocess == preprocess
  assert not found.is_preprocess_told
  assert f"No file says how images are prepared: {preprocess!r}" in caplog.text


def test_images_of_another_size_than_the_networks_are_told(tmp_path, caplog):
  """As of DINOv2: networks of 518 pixels, whose processor crops 224."""
  name = "huggingface_dinov2"
  directory = shutil.copytree(published.folder(name), tmp_path / name)
  size = {"shortest_edge": 256}
  crop = {"crop_size": {"height": 224, "width": 224}, "do_center_crop": True}
  published.change(directory, "preprocessor_config.json", size=size, **crop)
  with caplog.at_level(logging.INFO):
    found = inference.read(str(directory))
  side = found.weights.model.image_size
  assert f"is of images of {side} pixels" in caplog.text
  assert "makes 224 of them" in caplog.text


@pytest.fixture(scope="module")
def params():
  network = build.create(MODEL, num_classes=3)
  images = np.zeros((1, 8, 8, 3), np.uint8)
  params = network.init(jax.random.key(0), images)["params"]
  return jax.tree.map(np.asarray, params)


@pytest.fixture
def run(params, tmp_path):
  """A workdir; gives a function that changes its config."""
  weights = Weights(
    "",
    MODEL,
    params,
    class_names=("a", "b", "c"),
    preprocess="decode|resize",
    activation="softmax",
  )
  path = tmp_path / "run"
  workdir.write(path, Inference(weights, step=3))

  def change(**keys):
    config = run_files.read_config(path).model_copy(update=keys)
    (path / run_files.CONFIG).write_text(resolve.dump(config))
    return str(path)

  return change


def classification(preprocess):
  return schema.ClassificationEval(type="classification", preprocess=preprocess)


@pytest.mark.parametrize(
  ("evals", "preprocess"),
  [
    ({}, "decode|resize"),
    ({"val": "decode|resize(8)"}, "decode|resize(8)"),
    ({"a": "decode|resize(8)", "test": "decode"}, "decode"),
    ({"b": "decode", "a": "decode|resize"}, "decode"),
  ],
)
def test_images_are_prepared_as_the_runs_evaluator_does(run, evals, preprocess):
  found = {name: classification(text) for name, text in evals.items()}
  assert inference.read(run(evals=found)).weights.preprocess == preprocess


def test_a_runs_loss_says_what_its_logits_mean(run):
  path = run(objective=schema.Supervised(loss="sigmoid"))
  found = inference.read(path)
  assert found.weights.activation == "sigmoid"
  assert found.step == 3
  assert found.weights.class_names == ("a", "b", "c")


def test_the_step_is_that_of_the_parameters_though_the_run_goes_on(
  run, monkeypatch
):
  path, read_params = run(), reading.read_params

  def read_before_a_save(directory, step, *others):
    params = read_params(directory, step, *others)
    saves = directory / "checkpoints"
    shutil.copytree(saves / str(step), saves / str(step + 2))
    return params

  monkeypatch.setattr(reading, "read_params", read_before_a_save)
  assert inference.read(path).step == 3
  assert reading.locate(path)[1] == 5


def test_what_one_machine_wanted_is_left_behind(run):
  wanted = {"attention": "cudnn", "remat": "full", "dtype": "bfloat16"}
  model = MODEL.model_copy(update=wanted)
  found = inference.read(run(model=model)).weights.model
  assert (found.attention, found.remat) == ("xla", "none")
  assert found.dtype == "bfloat16"


def test_a_published_file_has_no_step(params, tmp_path):
  path = tmp_path / "model.npz"
  npz.write(epath.Path(path), Weights("test", MODEL, params))
  found = inference.read(str(path))
  assert found.step is None
  assert found.weights.preprocess == "decode|resize"
  assert found.weights.activation == "softmax"


def test_what_the_file_does_not_say_is_logged(params, tmp_path, caplog):
  path = tmp_path / "model.npz"
  gap = MODEL.model_copy(update={"pool": "gap"})
  leaves = {k: v for k, v in params.items() if k != "cls"}
  encoder = dict(leaves["Transformer"])
  table = encoder["posembed_input"]["pos_embedding"][:, 1:]
  encoder["posembed_input"] = {"pos_embedding": table}
  npz.write(
    epath.Path(path), Weights("test", gap, {**leaves, "Transformer": encoder})
  )
  with caplog.at_level(logging.INFO, logger="vit_jax"):
    found = inference.read(str(path))
  logged = [f"{path}: {note}" for note in found.weights.assumed]
  assert caplog.messages == logged


def test_a_converted_run_names_its_extensions(run, tmp_path):
  found = inference.read(run(extensions=("calendar",)))
  workdir.write(tmp_path / "copy", found.adapted(num_classes=2))
  copied = run_files.read_config(tmp_path / "copy")
  assert copied.extensions == ("calendar",)


def test_another_head_takes_the_names_away(run):
  found = inference.read(run())
  larger = found.adapted(image_size=12)
  assert larger.weights.class_names == ("a", "b", "c")
  assert larger.weights.model.image_size == 12
  other = found.adapted(num_classes=2)
  assert other.weights.class_names is None
  assert other.weights.params["head"]["kernel"].shape == (32, 2)


def test_ops_for_images_of_one_size_do_not_stay_for_another(run):
  evals = {"test": classification("decode|resize(10)|central_crop(8)")}
  found = inference.read(run(evals=evals))
  assert found.adapted(num_classes=2).weights.preprocess == (
    "decode|resize(10)|central_crop(8)"
  )
  assert found.adapted(image_size=12).weights.preprocess == "decode|resize"


def test_a_workdir_without_its_config_is_a_sentence(run):
  path = run()
  (epath.Path(path) / run_files.CONFIG).unlink()
  with pytest.raises(UserError, match="config.json"):
    inference.read(path)
