"""Google-research's published files by name, from a stand-in for the bucket."""

import fcntl
import io
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import vit_jax
from tests.rough_server import RoughServer
from vit_jax import convert, downloads, named_weights, vit_models
from vit_jax.errors import UserError

# As google-research/vision_transformer's README and timm 1.0 write them.
PUBLISHED = {
  "vit_i21k:B/16": "imagenet21k/ViT-B_16.npz",
  "vit_i21k:R50+B/16": "imagenet21k/R50+ViT-B_16.npz",
  "vit_i21k_i1k:B/16": "imagenet21k+imagenet2012/ViT-B_16-224.npz",
  "vit_i21k_i1k:L/32": "imagenet21k+imagenet2012/ViT-L_32.npz",
  "augreg_i21k:ViT-B/16": (
    "augreg/B_16-i21k-300ep-lr_0.001-aug_medium1-wd_0.1-do_0.0-sd_0.0.npz"
  ),
  "augreg_i21k:R+Ti/16": (
    "augreg/R_Ti_16-i21k-300ep-lr_0.001-aug_none-wd_0.03-do_0.0-sd_0.0.npz"
  ),
  "augreg_i21k_i1k:L/16@384": (
    "augreg/L_16-i21k-300ep-lr_0.001-aug_strong1-wd_0.1-do_0.0-sd_0.0"
    "--imagenet2012-steps_20k-lr_0.01-res_384.npz"
  ),
  "augreg_i21k_i1k:R26+S/32": (
    "augreg/R26_S_32-i21k-300ep-lr_0.001-aug_light0-wd_0.03-do_0.1-sd_0.1"
    "--imagenet2012-steps_20k-lr_0.03-res_224.npz"
  ),
  "augreg_i1k:B/16": (
    "augreg/B_16-i1k-300ep-lr_0.001-aug_strong2-wd_0.1-do_0.1-sd_0.1"
    "--imagenet2012-steps_20k-lr_0.01-res_224.npz"
  ),
  "sam_i1k:B/32": "sam/ViT-B_32.npz",
  "gs://vit_models/gsam/ViT-S_16.npz": "gsam/ViT-S_16.npz",
}
NAME = "augreg_i21k:Ti/16"
FILE = "augreg/Ti_16-i21k-300ep-lr_0.001-aug_none-wd_0.03-do_0.0-sd_0.0.npz"


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
  """A Ti/16 for 32 pixels with random parameters, as an .npz."""
  path = tmp_path_factory.mktemp("published") / "Ti_16.npz"
  model, params = vit_jax.create_model("Ti/16", num_classes=5, image_size=32)
  vit_jax.save(str(path), model, params)
  return path.read_bytes()


@pytest.fixture
def served(weights, tmp_path, monkeypatch):
  monkeypatch.setattr(downloads, "_PAUSE_SECONDS", 0.0)
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
  with RoughServer({FILE: weights}) as server:
    monkeypatch.setenv(vit_models.MIRROR, server.url + "/")
    yield server


def cached(tmp_path):
  """Files in the cache, partial ones too."""
  return [path.name for path in tmp_path.rglob("cache/**/*") if path.is_file()]


@pytest.mark.parametrize(("name", "file"), PUBLISHED.items())
def test_a_name_stands_for_its_published_file(name, file):
  assert named_weights.is_name(name)
  assert vit_models.file_of(name) == file


def test_each_name_is_of_a_known_network_and_has_a_file_of_its_own():
  names = vit_models.names()
  assert len({vit_models.file_of(name) for name in names}) == len(names)
  known = vit_jax.list_models()
  for name in names:
    variant = name.partition(":")[2].partition("@")[0]
    assert {variant, f"ViT-{variant}"} & set(known), name


def test_a_file_is_fetched_once_and_loaded(served, weights, tmp_path):
  model, params = vit_jax.load(NAME)
  assert vit_jax.load(NAME)[0] == model
  assert [path for path, _ in served.requests] == [FILE]
  with np.load(io.BytesIO(weights)) as file:
    np.testing.assert_array_equal(
      params["embedding"]["kernel"], file["embedding/kernel"]
    )
  served.status = 503
  convert.convert(NAME, str(tmp_path / "mine.npz"))
  _, again = vit_jax.load(tmp_path / "mine.npz")
  jax.tree.map(np.testing.assert_array_equal, again, params)


def test_messages_have_the_name_not_the_place_in_the_cache(served, caplog):
  vit_jax.load(NAME, num_classes=3)
  vit_jax.load(NAME, num_classes=3)
  assert f"{NAME}: " in caplog.text and "weights/augreg" not in caplog.text


def test_a_collection_has_the_file_for_the_network(served):
  model, params = vit_jax.create_model(
    "ViT-Ti/16", num_classes=5, image_size=32, pretrained="augreg_i21k"
  )
  _, expected = vit_jax.load(f"gs://vit_models/{FILE}")
  jax.tree.map(np.testing.assert_array_equal, params, expected)
  assert model.image_size == 32
  sizes = [
    vit_models.named("augreg_i21k_i1k", "ViT-B/16", size)
    for size in (224, 384, 512)
  ]
  assert sizes == [
    "augreg_i21k_i1k:B/16@224",
    "augreg_i21k_i1k:B/16@384",
    "augreg_i21k_i1k:B/16",
  ]
  with pytest.raises(UserError, match="augreg_i21k has Ti/16, S/32"):
    vit_jax.create_model("Swin-T", pretrained="augreg_i21k")


def test_a_broken_connection_is_mended(served, weights):
  served.cut_after, served.cuts = len(weights) // 3, 2
  vit_jax.load(NAME)
  assert len(served.requests) == 3


@pytest.mark.parametrize(
  ("mood", "sentence"),
  [
    ({"status": 404}, f"{NAME}: there is no file http.*/{FILE}"),
    ({"status": 503}, "cannot be fetched .*503.* not in the cache"),
    ({"md5": "AAAA"}, "differs from the server's checksum"),
    ({"files": {FILE: b"<html>Log in"}}, "what came is no .npz file"),
    ({"cut_after": 1000, "cuts": 99, "has_ranges": False}, "1000 of"),
  ],
)
def test_what_cannot_be_had_is_a_sentence_and_leaves_nothing(
  served, tmp_path, mood, sentence
):
  for name, value in mood.items():
    setattr(served, name, value)
  with pytest.raises(UserError, match=sentence):
    vit_jax.load(NAME)
  assert not cached(tmp_path)


def left_behind(tmp_path, name, *, idle_seconds=3600):
  """A part of a download that was last written to so long ago."""
  directory = tmp_path / "cache/vit_jax/weights/augreg"
  directory.mkdir(parents=True, exist_ok=True)
  path = directory / f".{name}.partial"
  path.write_bytes(b"a part")
  then = path.stat().st_mtime - idle_seconds
  os.utime(path, (then, then))
  return path


def test_what_a_killed_download_left_is_removed(served, tmp_path):
  file = os.path.basename(FILE)
  left_behind(tmp_path, f"{file}.0123abcd")
  left_behind(tmp_path, "other.npz.4567cdef")
  vit_jax.load(NAME)
  assert cached(tmp_path) == [file]


def test_the_parts_of_others_at_work_are_left(served, tmp_path):
  file = os.path.basename(FILE)
  recent = left_behind(tmp_path, f"{file}.0123abcd", idle_seconds=60)
  stopped = left_behind(tmp_path, f"{file}.4567cdef")
  with open(stopped, "r+b") as held:
    fcntl.flock(held, fcntl.LOCK_EX)
    vit_jax.load(NAME)
  assert sorted(cached(tmp_path)) == sorted([recent.name, stopped.name, file])


def test_a_download_holds_its_part_until_it_is_whole(
  served, tmp_path, monkeypatch
):
  fetch, seen = downloads.fetch, []

  def interrupted(url, path):
    """As long as a stopped process may be; meanwhile another wants it."""
    if not seen:
      seen.append(path)
      os.utime(path, (0, 0))
      vit_jax.load(NAME)
      assert path.exists()
    fetch(url, path)

  monkeypatch.setattr(downloads, "fetch", interrupted)
  vit_jax.load(NAME)
  assert cached(tmp_path) == [os.path.basename(FILE)]


def test_a_cache_that_cannot_be_written_is_a_sentence(served, tmp_path):
  (tmp_path / "cache").write_text("a file where a directory should be")
  with pytest.raises(UserError, match="cannot be kept in .*XDG_CACHE_HOME"):
    vit_jax.load(NAME)


@pytest.mark.parametrize(
  ("name", "sentence"),
  [
    ("augreg_i21k:b16", "augreg_i21k has Ti/16, S/32, S/16"),
    ("augreg_i21k:B/15", "Did you mean augreg_i21k:B/16"),
    ("augreg_i21k_i1k:B/16@256", "published for 224 and 384 pixels, not 256"),
    ("gs://vit_models/augreg/index.csv", "DIRECTORY/FILE.npz"),
    ("gs://vit_models/../x.npz", "DIRECTORY/FILE.npz"),
    ("augreg_in21k:B/16", "Did you mean augreg_i21k:B/16"),
    ("augreg_in21k_ft_in1k", "Did you mean augreg_i21k_i1k:B/16"),
  ],
)
def test_another_name_is_a_sentence_without_a_network(name, sentence):
  with pytest.raises(UserError, match=sentence):
    vit_jax.load(name)


def test_a_bucket_out_of_reach_is_a_sentence(tmp_path, repo):
  code = (
    "import vit_jax\n"
    f"try: vit_jax.load({NAME!r})\n"
    "except vit_jax.errors.UserError as error: print(error)"
  )
  result = subprocess.run(
    [sys.executable, "-c", code],
    env={
      **os.environ,
      # Of a documentation's network: no packet comes back.
      vit_models.MIRROR: "http://192.0.2.1",
      "XDG_CACHE_HOME": str(tmp_path),
    },
    cwd=repo,
    capture_output=True,
    text=True,
    timeout=120,
  )
  assert "cannot be fetched" in result.stdout, result
  assert "not in the cache" in result.stdout
