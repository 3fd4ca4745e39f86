"""Image files of a command line: which are meant, and what becomes of each."""

import os
import pathlib

import numpy as np
import pytest
from PIL import Image

from vit_jax.data import image_files, spec
from vit_jax.errors import UserError

PREPROCESS = spec.parse("decode|resize", image_size=16)


def save(path: pathlib.Path, image: Image.Image | None = None, **options):
  path.parent.mkdir(parents=True, exist_ok=True)
  image = image or Image.new("RGB", (24, 20), (200, 100, 50))
  image.save(path, **options)
  return str(path)


@pytest.fixture
def photos(tmp_path, monkeypatch):
  """A folder with images at two depths and other files."""
  for name in ("b.jpg", "a.PNG", "deep/er/ü ß.webp", "deep/[1].bmp"):
    save(tmp_path / "photos" / name)
  save(tmp_path / "photos" / ".hidden" / "c.jpg")
  save(tmp_path / "photos" / ".d.jpg")
  (tmp_path / "photos" / "notes.txt").write_text("no image")
  (tmp_path / "empty").mkdir()
  monkeypatch.chdir(tmp_path)


INSIDE = [
  "photos/a.PNG",
  "photos/b.jpg",
  "photos/deep/[1].bmp",
  "photos/deep/er/ü ß.webp",
]


@pytest.mark.parametrize(
  ("words", "found"),
  [
    (["photos"], INSIDE),
    (["photos/b.jpg", "photos/a.PNG"], ["photos/b.jpg", "photos/a.PNG"]),
    (["photos/*.jpg"], ["photos/b.jpg"]),
    (["photos/**/*.bmp"], ["photos/deep/[1].bmp"]),
    (["photos/deep/[1].bmp"], ["photos/deep/[1].bmp"]),
    (["photos/d*"], INSIDE[2:]),
    (["photos/b.jpg", "photos"], ["photos/b.jpg", INSIDE[0], *INSIDE[2:]]),
    # A file that is named is taken for an image whatever it is called.
    (["photos/notes.txt"], ["photos/notes.txt"]),
  ],
)
def test_files_folders_and_patterns_are_found_once_and_in_order(
  photos, words, found
):
  assert image_files.find(words) == found


def test_a_link_to_a_folder_above_is_not_followed_for_ever(photos, tmp_path):
  (tmp_path / "photos" / "deep" / "up").symlink_to(tmp_path / "photos")
  assert sorted(image_files.find(["photos"])) == sorted(INSIDE)


def test_a_folder_that_cannot_be_listed_is_not_passed_over(photos, monkeypatch):
  def scandir(path):
    if str(path).endswith("er"):
      raise PermissionError(13, "Permission denied", path)
    return listing(path)

  listing = os.scandir
  monkeypatch.setattr(os, "scandir", scandir)
  with pytest.raises(UserError, match="photos/deep/er cannot be .*Permission"):
    image_files.find(["photos"])


def test_all_words_that_mean_no_image_are_named_at_once(photos):
  words = ["photos", "cat.jpg", "*.gif", "empty", "gs://bucket/a.jpg"]
  with pytest.raises(UserError) as error:
    image_files.find(words)
  lines = str(error.value).splitlines()
  assert [line.split()[0] for line in lines] == [
    "cat.jpg",
    "No",
    "empty",
    "gs://bucket/a.jpg",
  ]


def read(paths, batch_size=3):
  batches = list(image_files.read(paths, PREPROCESS, batch_size=batch_size))
  return [file for batch in batches for file in batch], batches


def test_files_come_in_their_order_in_batches(tmp_path):
  shades = range(0, 240, 30)
  paths = [
    save(tmp_path / f"{i}.png", Image.new("RGB", (20, 20), (i, i, i)))
    for i in shades
  ]
  files, batches = read(paths)
  assert [len(batch) for batch in batches] == [3, 3, 2]
  assert [file.path for file in files] == paths
  for file, shade in zip(files, shades, strict=True):
    np.testing.assert_array_equal(file.pixels, np.full((16, 16, 3), shade))


def test_broken_files_have_a_sentence_and_do_not_stop_the_others(tmp_path):
  good = save(tmp_path / "good.jpg")
  broken = {
    "text.jpg": b"This is no photograph.",
    "empty.png": b"",
    "truncated.jpg": (tmp_path / "good.jpg").read_bytes()[:-200],
  }
  for name, data in broken.items():
    (tmp_path / name).write_bytes(data)
  paths = [str(tmp_path / name) for name in broken]
  files, _ = read([*paths, good, str(tmp_path / "gone.jpg")])
  assert [file.pixels is None for file in files] == [True] * 3 + [False, True]
  for file in files:
    assert file.pixels is not None or file.problem.startswith(file.path)
  assert "is damaged" in files[0].problem
  assert "is empty" in files[1].problem
  assert "is damaged" in files[2].problem
  assert "No such file" in files[4].problem


def test_an_image_too_small_for_the_ops_is_named_with_its_size(tmp_path):
  path = save(tmp_path / "small.png")
  crop = spec.parse("decode|central_crop", image_size=22)
  ((file,),) = image_files.read([path], crop, batch_size=1)
  assert "24 x 20" in file.problem


def test_every_kind_of_image_is_read_as_rgb(tmp_path):
  """Pillow is the oracle; it decodes only WebP and BMP in ours."""
  ramp = np.arange(16) * 12
  pixels = np.stack(np.broadcast_arrays(ramp, ramp[:, None], 100), axis=-1)
  rgb = Image.fromarray(pixels.astype(np.uint8))
  exif = Image.Exif()
  exif[0x0112] = 6  # Shown turned by a quarter.
  kinds = {
    "grey.png": (rgb.convert("L"), {}),
    "palette.png": (rgb.convert("P"), {}),
    "rgba.png": (rgb.convert("RGBA"), {}),
    "plain.bmp": (rgb, {}),
    "lossless.webp": (rgb, {"lossless": True}),
    "grey.jpg": (rgb.convert("L"), {}),
    "cmyk.jpg": (rgb.convert("CMYK"), {"quality": 100}),
    "turned.jpg": (rgb, {"quality": 100, "subsampling": 0, "exif": exif}),
  }
  paths = [
    save(tmp_path / name, image, **options)
    for name, (image, options) in kinds.items()
  ]
  files, _ = read(paths)
  for file in files:
    with Image.open(file.path) as opened:
      want = np.asarray(opened.convert("RGB"), int)
    want = np.rot90(want, -1) if "turned" in file.path else want
    # Decoders of JPEG differ.
    error = 8 if file.path.endswith(".jpg") else 0
    np.testing.assert_allclose(file.pixels, want, atol=error, rtol=0)


def test_of_sixteen_bits_the_upper_eight_are_taken(tmp_path):
  grey = (np.arange(256) * 257).astype(np.uint16).reshape(16, 16)
  (file,), _ = read([save(tmp_path / "grey.png", Image.fromarray(grey))])
  np.testing.assert_array_equal(
    file.pixels, np.repeat((grey >> 8)[..., None], 3, axis=-1)
  )


def test_an_image_of_a_kind_that_is_not_read_is_named_so(tmp_path):
  image = Image.fromarray(np.ones((20, 24), np.float32))
  path = save(tmp_path / "depth.tif", image)
  ((found,),) = image_files.read([path], PREPROCESS, batch_size=4)
  assert found.pixels is None
  assert found.problem == f"{path} has 32 bits a pixel; convert it to 8."
