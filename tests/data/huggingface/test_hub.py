"""Datasets of the hub, served by its stand-in on the loopback."""

import json
import os
import subprocess
import sys
import time

import pytest

from tests.data.test_captions import picture
from tests.hub import Hub
from vit_jax.data.huggingface import hub

datasets = pytest.importorskip("datasets")
NAME = "somebody/insects"
CARD = """---
configs:
- config_name: small
  default: true
  data_files:
  - split: train
    path: small/train-*
- config_name: large
  data_files:
  - split: train
    path: large/*
---
Insects.
"""


def parquet(path, count):
  features = datasets.Features(
    image=datasets.Image(), label=datasets.ClassLabel(names=["ant", "bee"])
  )
  values = {
    "image": [{"bytes": picture(i), "path": None} for i in range(count)],
    "label": [i % 2 for i in range(count)],
  }
  datasets.Dataset.from_dict(values, features=features).to_parquet(path)
  return path.read_bytes()


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
  place = tmp_path_factory.mktemp("published")
  return {n: parquet(place / f"{n}.parquet", n) for n in (3, 5, 7)}


@pytest.fixture
def served(contents):
  plain = {"train-00000-of-00001.parquet": contents[3], "README.md": b"# A"}
  several = {
    "README.md": CARD.encode(),
    "small/train-0.parquet": contents[3],
    "large/0.parquet": contents[5],
    "large/1.parquet": contents[7],
  }
  changed = {"train-00000-of-00001.parquet": contents[7]}
  repositories = {
    f"datasets/{NAME}": {"main": plain, "v2": changed},
    "datasets/somebody/several": {"main": several},
    "datasets/somebody/parts": {
      "main": {f"train-{i}.parquet": contents[5] for i in range(4)}
    },
    "datasets/a/secret": {},
  }
  with Hub(repositories) as server:
    server.gated.add("datasets/a/secret")
    yield server


@pytest.fixture
def opened(served, tmp_path, repo):
  """Opens data as a run does; returns its examples and classes, or a line."""

  def opened(name, split="train", **environment):
    code = (
      "import json\n"
      "from vit_jax.data import sources\n"
      "from vit_jax.errors import UserError\n"
      "try:\n"
      f"  source = sources.open_source({name!r}, {split!r}, data_dir=None)\n"
      "  print(json.dumps([source.num_examples, source.class_names]))\n"
      "except UserError as error:\n"
      "  print(json.dumps(str(error)))\n"
    )
    run = subprocess.run(
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
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])

  return opened


@pytest.mark.slow
def test_a_name_is_fetched_once_and_then_found_without_a_network(
  opened, served
):
  assert opened(f"datasets:{NAME}") == [3, ["ant", "bee"]]
  assert opened(f"datasets:{NAME}", HF_HUB_OFFLINE="1") == [3, ["ant", "bee"]]
  served.broken = True
  assert opened(f"datasets:{NAME}", "train[:2]") == [2, ["ant", "bee"]]
  says = opened(f"datasets:{NAME}@v2", HF_HUB_OFFLINE="1")
  assert "cannot be fetched" in says and "not in the cache" in says


@pytest.mark.slow
def test_revisions_and_configurations_have_their_own_files(opened, served):
  assert opened(f"datasets:{NAME}@v2") == [7, ["ant", "bee"]]
  assert opened("datasets:somebody/several") == [3, ["ant", "bee"]]
  assert not any("large" in path for path in served.requests)
  served.requests.clear()
  assert opened("datasets:somebody/several:large")[0] == 12
  assert not any("small" in path for path in served.requests)
  assert opened("datasets:somebody/several@main:large")[0] == 12
  says = opened("datasets:somebody/several:huge")
  assert "no configuration 'huge'; it has: 'small', 'large'" in says


@pytest.mark.slow
def test_what_was_not_fetched_whole_is_not_used(opened, served):
  name = "datasets:somebody/parts"
  served.unreadable = {"train-2.parquet", "train-3.parquet"}
  assert f"{name} was not fetched whole (" in opened(name)
  says = opened(name, HF_HUB_OFFLINE="1")
  assert "the cache lacks some of its files" in says
  assert "Connect and run again." in says
  served.broken = True
  assert "the cache lacks some of its files" in opened(name)
  served.broken, served.unreadable = False, set()
  assert opened(name)[0] == 20
  served.broken = True
  assert opened(name)[0] == 20


def test_a_process_sees_one_commit(served, contents, tmp_path, monkeypatch):
  import huggingface_hub

  constants = huggingface_hub.constants
  monkeypatch.setattr(constants, "ENDPOINT", served.endpoint)
  template = served.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
  monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
  monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
  monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
  hub.fetched.cache_clear()
  first = hub.fetched(NAME, None, None)
  asked = len(served.requests)
  files = served.repositories[f"datasets/{NAME}"]["main"]
  files["train-00001-of-00001.parquet"] = contents[5]  # Another commit.
  assert hub.fetched(NAME, None, None) == first
  assert len(served.requests) == asked
  hub.fetched.cache_clear()


@pytest.mark.slow
def test_what_the_hub_refuses_is_a_sentence(opened):
  says = opened("datasets:nobody/nothing")
  assert says.startswith("datasets:nobody/nothing: the hub has no repository")
  says = opened(f"datasets:{NAME}@v9")
  assert f"the repository {NAME} has no revision 'v9'" in says
  assert "accept them on" in opened("datasets:a/secret")


@pytest.mark.slow
def test_without_network_and_cache_the_sentence_comes_soon(opened):
  # A port that nobody listens at, and an address that nobody answers at.
  for endpoint in ("http://127.0.0.1:9", "http://10.255.255.1"):
    start = time.monotonic()
    says = opened(f"datasets:{NAME}", HF_ENDPOINT=endpoint)
    assert says.startswith(f"datasets:{NAME} cannot be fetched (")
    assert "not in the cache" in says
    print(endpoint, time.monotonic() - start)
