"""Compiled programs are kept, used again, bounded and checked."""

import json
import os
import subprocess
import sys

import jax
import pytest

from vit_jax.errors import UserError
from vit_jax.processes import compile_cache

# Trains six steps; says how often a program came from the cache, and what it
# computed, to the bit.
START = """
import collections, functools, json, jax
from tests import experiments
from vit_jax.processes import compile_cache
compile_cache.enable()
counts = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **_: counts.update([name]))
parts = experiments.build(model__dropout_rate=0.1, model__depth=1)
step = functools.partial(parts.compile(), parts.constants)
state, losses = parts.init_state(), []
for number in range(6):
  state, metrics = step(state, experiments.batch(parts, number))
  losses.append(float(metrics["loss"]).hex())
print(json.dumps({
  "hits": counts["/jax/compilation_cache/cache_hits"],
  "misses": counts["/jax/compilation_cache/cache_misses"],
  "losses": losses,
}))
"""


def start(repo, home):
  inherited = dict(os.environ)
  del inherited["JAX_COMPILATION_CACHE_DIR"]
  run = subprocess.run(
    [sys.executable, "-c", START],
    cwd=repo,
    env=inherited | {"XDG_CACHE_HOME": str(home)},
    check=True,
    capture_output=True,
    text=True,
  )
  return json.loads(run.stdout), run.stderr


@pytest.mark.slow
def test_a_second_start_compiles_nothing_and_computes_the_same_bits(
  repo, tmp_path
):
  first, _ = start(repo, tmp_path)
  files = list((tmp_path / "vit_jax" / "compiled").iterdir())
  assert len(files) == first["misses"] > 0
  second, _ = start(repo, tmp_path)
  assert (second["misses"], second["hits"]) == (0, first["misses"])
  assert second["losses"] == first["losses"]
  step = max(files, key=lambda file: file.stat().st_size)
  content = bytearray(step.read_bytes())
  content[len(content) // 2] ^= 1
  step.write_bytes(content)
  third, said = start(repo, tmp_path)
  assert third["losses"] == first["losses"]
  assert f"{step} is damaged" in said
  assert step.read_bytes() != content


def test_what_was_put_is_found_and_the_rest_is_not(tmp_path):
  cache = compile_cache.Cache(tmp_path, 100)
  cache.put("a", b"first")
  assert cache.get("a") == b"first"
  assert cache.get("b") is None


def test_what_was_not_used_for_longest_goes_first(tmp_path):
  cache = compile_cache.Cache(tmp_path, 100)
  for age, key in enumerate("cba"):
    cache.put(key, bytes(26))  # 30 on the disk, with the seal.
    os.utime(tmp_path / key, (age, age))
  cache.get("c")
  cache.put("d", bytes(26))
  assert {file.name for file in tmp_path.iterdir()} == {"a", "c", "d"}


def test_what_is_larger_than_all_is_not_kept(tmp_path):
  cache = compile_cache.Cache(tmp_path, 100)
  cache.put("a", bytes(10))
  cache.put("b", bytes(97))
  assert {file.name for file in tmp_path.iterdir()} == {"a"}


@pytest.mark.parametrize(
  "damage",
  [
    lambda content: content[:-1],
    lambda content: content[:2],
    lambda content: b"",
    lambda content: content[:3] + bytes([content[3] ^ 8]) + content[4:],
  ],
  ids=["cut", "short", "empty", "flipped"],
)
def test_what_is_damaged_is_not_used_and_goes(tmp_path, damage):
  cache = compile_cache.Cache(tmp_path, 100)
  cache.put("a", b"content")
  (tmp_path / "a").write_bytes(damage((tmp_path / "a").read_bytes()))
  assert cache.get("a") is None
  assert not list(tmp_path.iterdir())


@pytest.fixture
def unset():
  """As if the tests had no cache of their own."""
  own = jax.config.jax_compilation_cache_dir
  jax.config.update("jax_compilation_cache_dir", None)
  yield
  jax.config.update("jax_compilation_cache_dir", own)


def test_a_limit_of_0_keeps_nothing(unset, monkeypatch, tmp_path):
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
  monkeypatch.setenv(compile_cache.LIMIT, "0")
  compile_cache.enable()
  assert not list(tmp_path.iterdir())


def test_a_directory_that_cannot_be_written_to_is_told(
  unset, monkeypatch, tmp_path, caplog
):
  (tmp_path / "vit_jax").touch()
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
  compile_cache.enable()
  assert "cannot be written to" in caplog.text


@pytest.mark.parametrize("text", ["much", "", "inf", "nan", "-1"])
def test_a_limit_that_is_no_number_is_refused(unset, text, monkeypatch):
  monkeypatch.setenv(compile_cache.LIMIT, text)
  with pytest.raises(UserError, match="VIT_JAX_COMPILE_CACHE_GIB = "):
    compile_cache.enable()
