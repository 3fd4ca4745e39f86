"""Checkpoints by the names that they have on the hub."""

import os
import subprocess
import sys

import jax
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


def test_pickled_shards_are_fetched_as_a_directory(fetch, served):
  shards = [f"pytorch_model-0000{n}-of-00002.bin" for n in (1, 2)]
  index = "pytorch_model.bin.index.json"
  contents = dict.fromkeys((*shards, index, "README.md"), b"x")
  served.repositories["a/shards"] = {"main": contents}
  place = fetch(looked_up("hf:a/shards")).stdout.strip()
  assert set(os.listdir(place)) == {*shards, index}


def test_what_a_trainer_leaves_beside_its_weights_is_not_weights(fetch, served):
  others = ("optimizer.pt", "rng_state.pth", "scheduler.pt")
  names = ("pytorch_model.bin", "training_args.bin", "config.json", *others)
  served.repositories["a/trained"] = {"main": dict.fromkeys(names, b"x")}
  path = fetch(looked_up("hf:a/trained")).stdout.strip()
  assert os.path.basename(path) == "pytorch_model.bin"
  found = set(os.listdir(os.path.dirname(path)))
  assert found == {"pytorch_model.bin", "config.json"}


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


@pytest.fixture
def source(files, tmp_path):
  """A checkpoint on disk."""
  source = tmp_path / "copy"
  source.mkdir()
  for name in ("config.json", "model.safetensors"):
    (source / name).write_bytes(files[name])
  return source


def converted(source, path):
  """Code that uploads a checkpoint, or prints the sentence."""
  return (
    "from vit_jax import convert, errors\n"
    f"try: convert.convert({str(source)!r}, {path!r})\n"
    "except errors.UserError as error: print('error:', error)"
  )


def test_what_is_uploaded_is_loaded_by_its_name(fetch, served, source, files):
  served.owners["hf_mine"] = "me"
  result = fetch(converted(source, "hf:me/new"), HF_TOKEN="hf_mine")
  assert f"uploaded hf:me/new: Hugging Face directory; {served.endpoint}" in (
    result.stdout
  ), result
  uploaded = served.repositories["me/new"]["main"]
  assert served.private == {"me/new"}
  assert 'vit_jax.load("hf:me/new")' in uploaded["README.md"].decode()
  place = fetch(looked_up("hf:me/new"), HF_TOKEN="hf_mine").stdout.strip()
  _, params = vit_jax.load(place)
  _, expected = vit_jax.load(str(source))
  jax.tree.map(np.testing.assert_array_equal, params, expected)


def test_the_report_of_a_run_goes_with_it(fetch, served, source, tmp_path):
  run = tmp_path / "run"
  convert.convert(str(source), str(run), to="workdir")
  (run / "report").mkdir()
  (run / "report" / "index.html").write_text("<p>Curves.")
  served.owners["hf_mine"] = "me"
  for path in (run, next((run / "checkpoints").iterdir())):
    result = fetch(converted(path, f"hf:me/{path.name}"), HF_TOKEN="hf_mine")
    assert "uploaded" in result.stdout, result
    uploaded = served.repositories[f"me/{path.name}"]["main"]
    assert uploaded["report.html"] == b"<p>Curves."
    assert b"[report.html](report.html)" in uploaded["README.md"]
  # Another run's report, in a folder above, is not this one's.
  (run / "report" / "index.html").unlink()
  (tmp_path / "report").mkdir()
  (tmp_path / "report" / "index.html").write_text("<p>A sweep.")
  fetch(converted(run, "hf:me/plain"), HF_TOKEN="hf_mine")
  assert "report.html" not in served.repositories["me/plain"]["main"]


@pytest.mark.parametrize(
  ("path", "token", "sentence"),
  [
    ("hf:me/new", "", "nobody is logged in to the hub; run `hf auth login`"),
    ("hf:you/new", "hf_mine", "does not let this user write there"),
    ("hf:me/new", "hf_old", "does not let this user write there"),
    (f"hf:{NAME}", "hf_mine", "holds weights, and nothing is overwritten"),
    ("hf:me/new@v2", "hf_mine", "write hf:OWNER/NAME"),
  ],
)
def test_what_cannot_be_uploaded_is_a_sentence(
  fetch, served, source, path, token, sentence
):
  served.owners["hf_mine"] = "me"
  result = fetch(converted(source, path), HF_TOKEN=token)
  assert sentence in result.stdout, result
  assert "Traceback" not in result.stderr
  assert set(served.repositories) == {NAME, "a/secret"}


def test_nothing_is_uploaded_to_a_repository_that_is_open(
  fetch, served, source
):
  """It would be seen at once; the hub does not make it private again."""
  served.owners["hf_mine"] = "me"
  begun = {"main": {".gitattributes": b"", "README.md": b"Soon."}}
  served.repositories["me/begun"] = {"main": dict(begun["main"])}
  result = fetch(converted(source, "hf:me/begun"), HF_TOKEN="hf_mine")
  assert "hf:me/begun is open to everyone, and what" in result.stdout, result
  assert "make it private on its page" in result.stdout
  assert "Traceback" not in result.stderr
  assert served.repositories["me/begun"] == begun
  served.private.add("me/begun")
  result = fetch(converted(source, "hf:me/begun"), HF_TOKEN="hf_mine")
  assert "uploaded hf:me/begun" in result.stdout, result


def test_an_upload_that_breaks_off_leaves_no_file(fetch, served, source):
  served.owners["hf_mine"], served.stores_nothing = "me", True
  result = fetch(converted(source, "hf:me/new"), HF_TOKEN="hf_mine")
  assert "hf:me/new: the hub cannot be reached" in result.stdout, result
  assert served.repositories["me/new"]["main"] == {".gitattributes": b""}
  served.stores_nothing = False
  result = fetch(converted(source, "hf:me/new"), HF_TOKEN="hf_mine")
  assert "uploaded hf:me/new" in result.stdout, result


def test_a_form_that_is_no_directory_is_not_uploaded(source):
  with pytest.raises(UserError, match="--to=npz is not a form for the hub"):
    convert.convert(str(source), "hf:a/b", to="npz")


def test_other_paths_are_left_alone():
  assert hub.local("runs/hf:x") == "runs/hf:x"
