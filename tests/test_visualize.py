"""The visualize command: what it leaves in its directory, and how it fails."""

import base64
import os
import pathlib
import resource
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import vit_jax
from tests.checkpoint import runs
from tests.models import networks
from vit_jax import visualize
from vit_jax.errors import UserError
from vit_jax.models import build

OF_PARAMETERS = {"filters.png", "position_similarity.png"}
OF_ATTENTION = {"attention_distance.png", "attention_rollout.png"}
WRITTEN_ALWAYS = {"filters.png", "index.html", "numbers.npz"}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
  """Three images of different sizes and kinds."""
  root = tmp_path_factory.mktemp("photos")
  rng = np.random.default_rng(0)
  for name, size in (("a.png", 8), ("b <i>.jpg", 20), ("c.png", 13)):
    pixels = rng.integers(0, 256, (size, size + 3, 3), np.uint8)
    Image.fromarray(pixels).save(root / name)
  return sorted(str(path) for path in root.iterdir())


@pytest.fixture(scope="module")
def npz(tmp_path_factory):
  """A published file of three layers of two heads on 2 x 2 patches."""
  path = str(tmp_path_factory.mktemp("weights") / "tiny.npz")
  return saved(path, networks.tiny())


def saved(path, model):
  vit_jax.save(path, model, networks.random_params(model))
  return path


def page(output):
  return (output / "index.html").read_text()


def written(output):
  return {path.name for path in output.iterdir()}


def test_the_command_leaves_pictures_numbers_and_a_page(
  repo, npz, photos, tmp_path
):
  output = tmp_path / "new" / "seen"
  words = [f"--checkpoint={npz}", f"--output={output}", "--shown=2", *photos]
  result = command(repo, *words)
  assert (result.returncode, result.stderr) == (0, "")
  heads = {f"attention_heads_0{n}.png" for n in (1, 2)}
  assert written(output) == (
    WRITTEN_ALWAYS | OF_PARAMETERS | OF_ATTENTION | heads
  ) | {"patch_features.png"}
  assert result.stdout == f"wrote {output}/index.html and 8 files\n"

  for name in written(output):
    if name.endswith(".png"):
      with Image.open(output / name) as picture:
        picture.load()
        assert picture.mode == "RGB" and min(picture.size) > 100
      data = base64.b64encode((output / name).read_bytes()).decode()
      assert f' src="data:image/png;base64,{data}"' in page(output)
  with np.load(output / "numbers.npz") as numbers:
    # All images count, those shown are drawn.
    assert numbers["attention_distance"].shape == (3, 3, 2)
    assert numbers["attention_rollout"].shape == (2, 2, 2)
    assert numbers["attention_heads_02"].shape == (3, 2, 2, 2)
    assert numbers["filters"].shape == (16, 4, 4, 3)
  text = page(output)
  assert "b &lt;i&gt;.jpg" in text and photos[2] not in text
  assert text.count("src=") == 7 and "url(" not in text

  again = command(repo, *words)
  assert again.returncode == 1
  assert "nothing is overwritten" in again.stderr


def test_a_run_shows_how_figures_changed(photos, tmp_path):
  workdir, output = tmp_path / "run", tmp_path / "seen"
  model = networks.tiny()
  params = {n: networks.random_params(model, seed=n) for n in (2, 4, 6)}
  runs.write(workdir, build.config_of(model), params)
  assert visualize.visualize(str(workdir), str(output), photos) == 0
  over_training = {name for name in written(output) if "training_" in name}
  assert over_training == {
    "training_attention_distance.png",
    "training_filters.png",
    "training_position_similarity.png",
    "training_rollout.png",
  }
  with np.load(output / "numbers.npz") as numbers:
    assert numbers["training_steps"].tolist() == [2, 4, 6]
    assert numbers["training_attention_distance"].shape == (3, 3)
    # The last of the steps is the one that is shown.
    np.testing.assert_allclose(
      numbers["training_attention_distance"][-1],
      numbers["attention_distance"].mean(axis=(0, 2)),
      rtol=1e-5,
    )
    np.testing.assert_allclose(
      numbers["training_rollout"][-1], numbers["attention_rollout"], rtol=1e-5
    )
  assert "step 6" in page(output)

  one = str(workdir / "checkpoints" / "4")
  assert visualize.visualize(one, str(tmp_path / "one"), photos) == 0
  assert not any("training_" in name for name in written(tmp_path / "one"))
  assert "step 4" in page(tmp_path / "one")


def test_without_images_parameters_are_seen(npz, tmp_path):
  assert visualize.visualize(npz, str(tmp_path), []) == 0
  assert written(tmp_path) == WRITTEN_ALWAYS | OF_PARAMETERS
  assert "There are no images" in page(tmp_path)


@pytest.mark.parametrize(
  "name, makes",
  [
    (".filters.png.0a1b2c3d.partial", pathlib.Path.mkdir),
    (".film.mp4.download.partial", pathlib.Path.touch),
  ],
)
def test_only_its_own_half_written_files_are_removed(
  npz, tmp_path, name, makes
):
  makes(tmp_path / name)
  with pytest.raises(UserError, match="nothing is overwritten"):
    visualize.visualize(npz, str(tmp_path), [])
  assert (tmp_path / name).exists()


def test_what_a_kill_has_left_does_not_count(npz, tmp_path):
  """SIGKILL gives no time to remove files that are half written."""
  left = tmp_path / ".filters.png.0a1b2c3d.partial"
  left.touch()
  (tmp_path / "theirs.txt").touch()
  with pytest.raises(UserError, match="nothing is overwritten"):
    visualize.visualize(npz, str(tmp_path), [])
  assert left.exists()
  (tmp_path / "theirs.txt").unlink()
  assert visualize.visualize(npz, str(tmp_path), []) == 0
  assert written(tmp_path) == WRITTEN_ALWAYS | OF_PARAMETERS


def test_figures_may_go_to_a_bucket(npz, bucket):
  assert visualize.visualize(npz, str(bucket / "seen"), []) == 0
  assert written(bucket / "seen") == WRITTEN_ALWAYS | OF_PARAMETERS
  with pytest.raises(UserError, match="nothing is overwritten"):
    visualize.visualize(npz, str(bucket / "seen"), [])


def test_a_resnet_shows_what_it_has(photos, tmp_path):
  path = saved(str(tmp_path / "bit.npz"), networks.tiny_resnet())
  assert visualize.visualize(path, str(tmp_path / "seen"), photos) == 0
  assert written(tmp_path / "seen") == WRITTEN_ALWAYS | {"patch_features.png"}
  assert "A ResNet has neither" in page(tmp_path / "seen")


def test_a_network_without_positions_says_so(tmp_path):
  model = networks.tiny(pos_embedding="none")
  path = saved(str(tmp_path / "none.npz"), model)
  assert visualize.visualize(path, str(tmp_path / "seen"), []) == 0
  assert written(tmp_path / "seen") == WRITTEN_ALWAYS
  assert "pos_embedding" in page(tmp_path / "seen")


def test_a_broken_file_is_named_and_the_others_are_seen(
  npz, photos, tmp_path, capsys
):
  broken = tmp_path / "text.jpg"
  broken.write_text("no image")
  output = tmp_path / "seen"
  paths = [str(broken), photos[0]]
  assert visualize.visualize(npz, str(output), paths) == 1
  assert f"error: {broken} is damaged" in capsys.readouterr().err
  assert "with 1 image." in page(output)
  assert str(broken) not in page(output)


def test_nothing_is_written_beside_other_files(npz, tmp_path):
  (tmp_path / "mine.txt").write_text("mine")
  with pytest.raises(UserError, match="nothing is overwritten"):
    visualize.visualize(npz, str(tmp_path), [])
  assert written(tmp_path) == {"mine.txt"}
  with pytest.raises(UserError, match="nothing is overwritten"):
    visualize.visualize(npz, str(tmp_path / "mine.txt"), [])


def test_a_place_that_cannot_be_written_to_is_said(npz, tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(UserError, match="file/seen"):
    visualize.visualize(npz, str(tmp_path / "file" / "seen"), [])


def test_a_full_disk_leaves_no_pictures(npz, tmp_path):
  visualize.visualize(npz, str(tmp_path / "whole"), [])
  largest = (tmp_path / "whole" / "index.html").stat().st_size
  output = tmp_path / "seen"
  limits = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (largest - 1, limits[1]))
  try:
    with pytest.raises(UserError, match="seen cannot be written: File too"):
      visualize.visualize(npz, str(output), [])
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
  assert written(output) == set()
  assert visualize.visualize(npz, str(output), []) == 0
  assert written(output) == written(tmp_path / "whole")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_parameters_that_are_no_numbers_are_said(tmp_path, value):
  model = networks.tiny()
  params = networks.random_params(model)
  params["Transformer"]["encoder_norm"]["bias"][3] = value
  path = str(tmp_path / "tiny.npz")
  vit_jax.save(path, model, params)
  said = "1 of the 16 numbers of Transformer/encoder_norm/bias"
  with pytest.raises(UserError, match=f"holds NaN or infinity: {said}"):
    visualize.visualize(path, str(tmp_path / "seen"), [])
  assert not (tmp_path / "seen").exists()


def command(repo, *words):
  return subprocess.run(
    [sys.executable, "-m", "vit_jax.visualize", *map(str, words)],
    env={**os.environ, "PYTHONPATH": str(repo)},
    text=True,
    capture_output=True,
  )


@pytest.mark.parametrize(
  ("words", "sentence"),
  [
    (["a.jpg"], "give --checkpoint=PATH"),
    (["--checkpoint=x", "a.jpg"], "--output=DIR"),
    (["--checkpoint=x", "--output=y", "no.jpg"], "no.jpg does not exist"),
    (["--checkpoint=not_there", "--output=y"], "not_there does not exist"),
  ],
)
def test_what_is_missing_is_said_in_a_sentence(
  repo, words, sentence, tmp_path, monkeypatch
):
  monkeypatch.chdir(tmp_path)
  result = command(repo, *words)
  assert result.returncode == 1
  assert sentence in result.stderr and "Traceback" not in result.stderr
  assert not list(tmp_path.iterdir())
