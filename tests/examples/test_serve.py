"""The server of examples/: what it answers, asked by urllib."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest
from PIL import Image

import vit_jax
from tests.weights import published_npz
from vit_jax import convert


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
  """A ViT for images of 8 pixels, and it as StableHLO."""
  place = tmp_path_factory.mktemp("served")
  _, params = published_npz.vit()
  published_npz.saved(place / "vit.npz", params)
  convert.convert(str(place / "vit.npz"), str(place / "vit.stablehlo"))
  return str(place / "vit.npz")


@pytest.fixture(scope="module")
def server(checkpoint, repo):
  """The address of a server that runs."""
  process = subprocess.Popen(
    [
      sys.executable,
      "examples/serve.py",
      f"--checkpoint={checkpoint}",
      f"--network={checkpoint.replace('.npz', '.stablehlo')}",
      "--port=0",
    ],
    cwd=repo,
    stdout=subprocess.PIPE,
    text=True,
  )
  try:
    yield process.stdout.readline().split()[-1]
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[0] == "stopped\n"
    assert process.returncode == 0
  finally:
    process.kill()


def ask(address, data=None):
  """Status and answer of a request."""
  try:
    with urllib.request.urlopen(address, data, timeout=60) as answer:
      return answer.status, json.load(answer)
  except urllib.error.HTTPError as error:
    return error.code, json.load(error)


def test_predictions_are_those_of_the_checkpoint(server, checkpoint, tmp_path):
  pixels = np.random.default_rng(0).integers(0, 256, (30, 20, 3), np.uint8)
  path = tmp_path / "photo.png"
  Image.fromarray(pixels).save(path)
  status, answer = ask(f"{server}/classify", path.read_bytes())
  (expected,) = vit_jax.Classifier(checkpoint)(path)
  assert status == 200
  assert [one["label"] for one in answer["predictions"]] == [
    one.label for one in expected
  ]
  np.testing.assert_allclose(
    [one["probability"] for one in answer["predictions"]],
    [one.probability for one in expected],
    rtol=1e-5,
  )


@pytest.mark.parametrize(
  ("path", "data", "status", "sentence"),
  [
    ("classify", b"no image", 400, "no image"),
    ("classify", b"", 400, "no image"),
    ("classify", b"\xff\xd8\xff" + bytes(32 * 2**20), 413, "larger than 32"),
    ("classify", None, 404, "POST /classify"),
    ("classifier", b"x", 404, "POST /classify"),
  ],
)
def test_what_cannot_be_answered_is_a_sentence(
  server, path, data, status, sentence
):
  found, answer = ask(f"{server}/{path}", data)
  assert found == status and sentence in answer["error"]
  assert ask(f"{server}/health") == (200, {"status": "ready"})


@pytest.mark.parametrize(
  ("flags", "message"),
  [
    ({"network": "none.stablehlo"}, "none.stablehlo cannot be read (No such"),
    ({"network": "bad.stablehlo"}, "bad.stablehlo is damaged or no StableHLO"),
    ({"network": "."}, ". cannot be read (Is a directory)"),
    ({"checkpoint": "none"}, "The checkpoint none does not exist"),
  ],
)
def test_files_that_cannot_be_served_are_a_sentence(
  flags, message, checkpoint, repo, tmp_path
):
  (tmp_path / "bad.stablehlo").write_bytes(b"no program")
  flags = {"checkpoint": checkpoint, "network": "bad.stablehlo"} | flags
  command = [f"--{name}={value}" for name, value in flags.items()]
  done = subprocess.run(
    [sys.executable, repo / "examples/serve.py", "--port=0", *command],
    cwd=tmp_path,
    env=os.environ | {"PYTHONPATH": str(repo)},
    capture_output=True,
    text=True,
    timeout=120,
  )
  assert done.returncode == 1 and "Traceback" not in done.stderr
  assert done.stderr.splitlines()[-1].startswith("error: ")
  assert message in done.stderr
