"""Checkpoints by the names that they have on the hub."""

import os
import subprocess
import sys

import numpy as np
import pytest

import vit_jax
from tests.hub import Hub
from vit_jax import convert, hub
from vit_jax.errors import UserError

NAME = "somebody/tiny-vit"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
  """A published directory, with what is not to be fetched beside it."""
  place = tmp_path_factory.mktemp("published") / "hf"
  model, params = vit_jax.create_model("Ti/16", num_classes=3, image_size=32)
  vit_jax.save(str(place), model, params, class_names=["ant", "bee", "cow"])
  found = {path.name: path.read_bytes() for path in place.iterdir()}
  return found | {"pytorch_model.bin": b"x", "onnx/model.onnx": b"x"}


@pytest.fixture
def served(files):
  other = {"config.json": files["config.json"], "README.md": b"no weights"}
  with Hub({NAME: {"main": files, "empty": other}, "a/secret": {}}) as server:
    server.gated.add("a/secret")
    yield server


@pytest.fixture
def fetch(served, tmp_path, repo):
  """Runs Python with the stand-in as the hub; returns its output."""

  def fetch(code, **environment):
    return subprocess.run(
      [sys.executable, "-c", code],
      env={
        **os.environ,
        "HF_ENDPOINT": served.endpoint,
        "HF_HOME": str(tmp_path / "cache"),
        "HF_HUB_DISABLE_XET": "1",
        **environment,
      },
      cwd=repo,
      capture_output=True,
      text=True,
    )

  return fetch


def looked_up(path):
  """Code that prints where a name's files are, or the sentence."""
  return (
    "from vit_jax import hub, errors\n"
    f"try: print(hub.local({path!r}))\n"
    "except errors.UserError as error: print('error:', error)"
  )


def test_the_files_of_one_form_are_fetched_once(fetch, served, files):
  first = fetch(looked_up(f"hf:{NAME}"))
  place = first.stdout.strip()
  assert os.path.isdir(place), first
  names = set(os.listdir(place))
  assert names == {name for name in files if name.endswith((".json", "rs"))}
  assert not any("pytorch_model" in path for path in served.requests)
  served.requests.clear()
  again = fetch(looked_up(f"hf:{NAME}@main"))
  assert again.stdout.strip() == place
  assert not any("/resolve/" in path for path in served.requests)


def test_a_name_stands_wherever_a_path_does(fetch, files, tmp_path):
  code = f"""
import numpy as np, vit_jax
model, params = vit_jax.load("hf:{NAME}")
images = np.arange(2 * 32 * 32 * 3, dtype=np.uint8).reshape(2, 32, 32, 3)
logits = model.apply({{"params": params}}, images)
np.save({str(tmp_path / "logits.npy")!r}, logits)
print(vit_jax.Classifier("hf:{NAME}").class_names)
"""
  result = fetch(code)
  assert "('ant', 'bee', 'cow')" in result.stdout, result.stderr
  place = tmp_path / "copy"
  place.mkdir()
  for name in ("config.json", "model.safetensors"):
    (place / name).write_bytes(files[name])
  model, params = vit_jax.load(place)
  images = np.arange(2 * 32 * 32 * 3, dtype=np.uint8).reshape(2, 32, 32, 3)
  np.testing.assert_allclose(
    np.load(tmp_path / "logits.npy"),
    model.apply({"params": params}, images),
    rtol=1e-5,
    atol=1e-6,
  )


def test_what_is_in_the_cache_needs_no_network(fetch, served):
  place = fetch(looked_up(f"hf:{NAME}")).stdout
  served.broken = True
  assert fetch(looked_up(f"hf:{NAME}")).stdout == place
  assert fetch(looked_up(f"hf:{NAME}"), HF_HUB_OFFLINE="1").stdout == place


def test_the_only_file_of_another_form_is_the_path(fetch, served):
  served.repositories["a/jax"] = {"main": {"S_16.npz": b"x", "README.md": b"x"}}
  served.repositories["a/two"] = {"main": {"S.npz": b"x", "B.npz": b"x"}}
  assert fetch(looked_up("hf:a/jax")).stdout.strip().endswith("/S_16.npz")
  assert (
    "several files of weights (S.npz, B.npz)"
    in fetch(looked_up("hf:a/two")).stdout
  )


@pytest.mark.parametrize(
  ("path", "sentence"),
  [
    ("hf:nobody/nothing", "has no repository nobody/nothing, or it is private"),
    ("hf:a/secret", "open to those who have accepted its terms"),
    (f"hf:{NAME}@v9", "has no revision 'v9'"),
    (f"hf:{NAME}@empty", "holds no weights that can be read"),
  ],
)
def test_what_cannot_be_had_is_a_sentence(fetch, path, sentence):
  result = fetch(looked_up(path))
  assert result.stdout.startswith("error:"), result
  assert sentence in result.stdout
  assert "Traceback" not in result.stderr


def test_a_hub_out_of_reach_is_a_sentence(fetch):
  # Of a documentation's network: no packet comes back.
  result = fetch(looked_up(f"hf:{NAME}"), HF_ENDPOINT="http://192.0.2.1")
  assert "cannot be fetched" in result.stdout, result
  assert "not in the cache" in result.stdout


@pytest.mark.parametrize(
  "path", ["hf:", "hf:one", "hf:a/b/c", "hf:a/b@", "hf:../x"]
)
def test_another_form_of_name_is_refused(path):
  with pytest.raises(UserError, match="write hf:OWNER/NAME"):
    hub.local(path)


def test_what_is_converted_is_written_to_a_disk(files, tmp_path):
  source = tmp_path / "copy"
  source.mkdir()
  for name in ("config.json", "model.safetensors"):
    (source / name).write_bytes(files[name])
  with pytest.raises(UserError, match="hf upload OWNER/NAME DIRECTORY"):
    convert.convert(str(source), "hf:a/b")


def test_other_paths_are_left_alone():
  assert hub.local("runs/hf:x") == "runs/hf:x"
