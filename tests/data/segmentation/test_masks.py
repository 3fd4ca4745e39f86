"""Folders of images and masks: what is read, and what is refused."""

import importlib
import io
import pathlib
import struct
import sys
import zlib

import jax
import numpy as np
import pytest
from PIL import Image

from tests import mask_folders
from vit_jax.config import schema
from vit_jax.data.segmentation import mask_batches, masks
from vit_jax.errors import UserError
from vit_jax.sharding import mesh as meshes


def _random(rng, side, high=4):
  image = rng.integers(0, 256, (side, side, 3), np.uint8)
  return image, rng.integers(0, high, (side, side), np.uint8)


@pytest.fixture
def folder(tmp_path):
  """Five random images of 8 pixels and their masks of labels 0 to 3."""
  rng = np.random.default_rng(0)
  pairs = [_random(rng, 8) for _ in range(5)]
  images, labels = map(np.stack, zip(*pairs, strict=True))
  labels[:, 0, 0] = 3
  mask_folders.write(tmp_path, "training", images, labels)
  return tmp_path, images, labels


def _open(root, **keys):
  keys = {"reduce_zero_label": False, "mask_size": 8} | keys
  return masks.open_split(str(root), "training", key="config.k", **keys)


def _mask(root, name="002.png"):
  return pathlib.Path(root, "annotations", "training", name)


def test_images_and_masks_are_read_as_they_were_written(folder):
  root, images, labels = folder
  opened = _open(root)
  assert opened.num_examples == 5
  for number in range(5):
    image, label = opened.read(number, image_size=8, mask_size=8)
    np.testing.assert_array_equal(image, images[number])
    np.testing.assert_array_equal(label, labels[number])
  np.testing.assert_array_equal(opened.largest, [3] * 5)


def test_a_fingerprint_is_that_of_names_and_labels(folder, tmp_path):
  root, images, labels = folder
  opened, moved = _open(root), tmp_path / "moved"
  assert _open(root).fingerprint == opened.fingerprint
  assert _open(root, reduce_zero_label=True).fingerprint != opened.fingerprint
  mask_folders.write(moved, "training", images, labels)
  assert _open(moved).fingerprint == opened.fingerprint
  labels[3, 0, 0] = 4
  mask_folders.write(moved, "training", images, labels)
  assert _open(moved).fingerprint != opened.fingerprint


@pytest.mark.parametrize("shape", [(7, 12), (31, 9), (8, 8)])
@pytest.mark.parametrize("side", [4, 8, 13])
def test_labels_are_those_of_the_nearest_centre(shape, side):
  labels = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
  # Pillow takes the pixel that holds the centre of an output.
  wanted = Image.fromarray(labels).resize(
    (side, side), Image.Resampling.NEAREST
  )
  np.testing.assert_array_equal(masks.nearest(labels, side), wanted)


def test_a_resized_mask_lies_over_its_resized_image(tmp_path):
  # A shape whose place the image shows too, at sides that do not divide.
  label = np.zeros((50, 70), np.uint8)
  label[9:33, 22:47] = 1
  image = np.repeat((label * 255)[..., None], 3, axis=-1)
  mask_folders.write(tmp_path, "training", [image], [label])
  image, label = _open(tmp_path).read(0, image_size=32, mask_size=32)
  np.testing.assert_array_equal(image[..., 0] > 127, label == 1)


def test_reducing_leaves_zero_and_255_without_a_label(tmp_path):
  label = np.array([[0, 1], [150, 255]], np.uint8)
  image = np.zeros((2, 2, 3), np.uint8)
  mask_folders.write(tmp_path, "training", [image], [label])
  opened = _open(tmp_path, reduce_zero_label=True)
  _, found = opened.read(0, image_size=2, mask_size=2)
  np.testing.assert_array_equal(found, [[255, 0], [149, 255]])
  opened.require_classes(150)
  with pytest.raises(UserError, match="label 149 after reduce_zero_label"):
    opened.require_classes(149)


def test_labels_of_a_palette_are_its_numbers(folder):
  root, _, labels = folder
  picture = Image.fromarray(labels[2]).convert("P")
  picture.putdata(labels[2].ravel().tolist())
  picture.putpalette([7, 7, 7, 200, 0, 0, 1, 2, 3, 90, 90, 90])
  # Four colours take two bits.
  picture.save(_mask(root), bits=2)
  _, found = _open(root).read(2, image_size=8, mask_size=8)
  np.testing.assert_array_equal(found, labels[2])


def _png(array):
  file = io.BytesIO()
  Image.fromarray(array).save(file, "PNG")
  return file.getvalue()


_LABELS = np.zeros((8, 8), np.uint8)


@pytest.mark.parametrize(
  "content, message",
  [
    (None, r"1 of 5 images .* have no mask .*: 002.png; add"),
    (_png(np.zeros((8, 8, 3), np.uint8)), "002.png is RGB of 8 bits"),
    (_png(np.zeros((8, 8, 4), np.uint8)), "002.png is RGBA of 8 bits"),
    (_png(np.zeros((8, 8), np.uint16)), "002.png is grey of 16 bits"),
    (_png(np.zeros((8, 8), bool)), "002.png is grey of 1 bits"),
    (_png(np.zeros((8, 9), np.uint8)), "002.png has 9 x 8 pixels, but its .*8"),
    (b"GIF89a", "002.png is not a PNG"),
    (_png(_LABELS)[:-30], "002.png is damaged"),
    (_png(_LABELS + 200), r"002.png has the label 200, but num_classes = 4"),
  ],
  ids=(
    *("missing", "rgb", "rgba", "grey16", "grey1", "size", "gif", "damaged"),
    "beyond",
  ),
)
def test_a_bad_mask_is_named(content, message, folder):
  root, _, _ = folder
  if content is None:
    _mask(root).unlink()
  else:
    _mask(root).write_bytes(content)
  with pytest.raises(UserError, match=message) as error:
    _open(root).require_classes(4)
  assert str(error.value).startswith("config.k: ")


def test_a_folder_without_labels_or_files_is_refused(folder, tmp_path):
  root, _, _ = folder
  for path in _mask(root).parent.iterdir():
    path.write_bytes(_png(_LABELS + 255))
  with pytest.raises(UserError, match="no pixel of .* has a label"):
    _open(root)
  with pytest.raises(
    UserError, match="no folder .*images/val; masks .*/images has training"
  ):
    masks.open_split(
      str(tmp_path),
      "val",
      key="config.k",
      reduce_zero_label=False,
      mask_size=8,
    )
  for path in (root / "images/training").iterdir():
    path.unlink()
  with pytest.raises(UserError, match="images/training has no files"):
    _open(root)


def test_two_images_of_one_mask_are_refused(folder):
  root, images, _ = folder
  Image.fromarray(images[0]).save(root / "images/training/002.jpg")
  with pytest.raises(UserError, match="002.jpg and 002.png, .* one mask"):
    _open(root)


def test_two_masks_of_one_image_are_refused(folder):
  root, _, _ = folder
  _mask(root, "002.PNG").write_bytes(_mask(root).read_bytes())
  if len(list(_mask(root).parent.iterdir())) == 5:
    pytest.skip("The file system does not tell case apart.")
  with pytest.raises(UserError, match="002.PNG and 002.png, .* one image"):
    _open(root)


@pytest.mark.parametrize(
  "kind, other", [("annotations", "image"), ("images", "mask")]
)
def test_a_broken_link_is_named_with_its_key(kind, other, folder):
  root, _, _ = folder
  opened = _open(root)
  path = root / kind / "training/002.png"
  path.unlink()
  path.symlink_to(root / "nothing")
  message = f"config.k: .*{kind}/training/002.png cannot be read .*its {other}"
  with pytest.raises(UserError, match=message):
    opened.read(2, image_size=8, mask_size=8)
  if kind == "annotations":
    with pytest.raises(UserError, match=message):
      _open(root)


def test_labels_that_no_resized_mask_keeps_are_refused(tmp_path):
  label = np.full((8, 8), 255, np.uint8)
  label[3, 3] = 2
  mask_folders.write(
    tmp_path, "training", [np.zeros((8, 8, 3), np.uint8)], [label]
  )
  for side in (8, 1, 2):
    # Pillow takes the pixel that holds the centre of an output.
    kept = Image.fromarray(label).resize((side, side), Image.Resampling.NEAREST)
    if (np.asarray(kept) != 255).any():
      assert _open(tmp_path, mask_size=side).largest.tolist() == [2]
    else:
      with pytest.raises(UserError, match=f"to mask_size = {side}; set"):
        _open(tmp_path, mask_size=side)


def test_a_bucket_without_its_package_is_a_sentence(monkeypatch):
  registry = importlib.import_module("fsspec.registry")
  monkeypatch.delitem(registry._registry, "gcs", raising=False)
  monkeypatch.setitem(sys.modules, "gcsfs", None)
  with pytest.raises(UserError, match="gs://bucket/ade .*pip install gcsfs"):
    _open("gs://bucket/ade")
  monkeypatch.delitem(registry._registry, "s3", raising=False)
  monkeypatch.setitem(sys.modules, "s3fs", None)
  with pytest.raises(UserError, match="config.k: s3://bucket/ade cannot be"):
    _open("s3://bucket/ade")


def test_a_damaged_image_is_named(folder):
  root, _, _ = folder
  path = root / "images/training/001.png"
  data = path.read_bytes()
  path.write_bytes(data[: len(data) // 2])  # Its header is whole.
  opened = _open(root)
  with pytest.raises(UserError, match="001.png is damaged"):
    opened.read(1, image_size=8, mask_size=8)
  path.write_bytes(b"")
  with pytest.raises(UserError, match="001.png is damaged"):
    _open(root)


def test_a_turned_image_is_compared_upright(tmp_path):
  image = np.zeros((6, 9, 3), np.uint8)
  mask_folders.write(
    tmp_path, "training", [image], [np.zeros((9, 6), np.uint8)]
  )
  exif = Image.Exif()
  exif[0x0112] = 6
  path = tmp_path / "images/training/000.png"
  Image.fromarray(image).save(path.with_suffix(".jpg"), exif=exif)
  path.unlink()
  assert _open(tmp_path).num_examples == 1


def _chunk(name, data):
  body = name + data
  return (
    struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
  )


def _turned(where):
  """A PNG of 6 x 9 pixels, height first, that EXIF turns to 9 x 6."""
  exif = Image.Exif()
  exif[0x0112] = 6
  block = exif.tobytes().removeprefix(b"Exif\0\0")
  data = _png(np.zeros((6, 9, 3), np.uint8))
  if where == "after":  # The last chunk is IEND, of 12 bytes.
    return data[:-12] + _chunk(b"eXIf", block) + data[-12:]
  # As ImageMagick writes it: a name, a length, and hexadecimal digits.
  digits = (b"Exif\0\0" + block).hex()
  text = f"\nexif\n{len(digits) // 2:8d}\n{digits}\n".encode()
  chunk = _chunk(b"tEXt", b"Raw profile type exif\0" + text)
  return data[:33] + chunk + data[33:]  # After the signature and IHDR.


@pytest.mark.parametrize("where", ["after", "imagemagick"])
def test_a_png_is_compared_as_it_is_turned(where, tmp_path):
  upright, stored = np.zeros((9, 6), np.uint8), np.zeros((6, 9), np.uint8)
  for split, label in (("upright", upright), ("stored", stored)):
    mask_folders.write(
      tmp_path, split, [np.zeros((2, 2, 3), np.uint8)], [label]
    )
    (tmp_path / f"images/{split}/000.png").write_bytes(_turned(where))
  keys = {"key": "config.k", "reduce_zero_label": False, "mask_size": 3}
  opened = masks.open_split(str(tmp_path), "upright", **keys)
  assert opened.read(0, image_size=4, mask_size=3)[1].shape == (3, 3)
  message = "config.k: .*000.png has 9 x 6 pixels, but its image .* has 6 x 9"
  with pytest.raises(UserError, match=message):
    opened = masks.open_split(str(tmp_path), "stored", **keys)
    # What follows the pixels is found when they are read.
    assert where == "after"
    opened.read(0, image_size=4, mask_size=3)


def _mesh(num_devices):
  return meshes.create_mesh(schema.Mesh(), jax.devices()[:num_devices])


@pytest.mark.parametrize("num_devices", [1, 4])
def test_an_evaluation_sees_each_example_once(num_devices, folder):
  root, images, labels = folder
  batches = list(
    mask_batches.eval_batches(
      _open(root),
      image_size=8,
      mask_size=8,
      batch_size=4,
      mesh=_mesh(num_devices),
    )
  )
  found = {
    name: np.concatenate([jax.device_get(batch[name]) for batch in batches])
    for name in ("image", "label")
  }
  np.testing.assert_array_equal(found["image"][:5], images)
  np.testing.assert_array_equal(found["label"][:5], labels)
  assert len(found["label"]) == 8 and (found["label"][5:] == 255).all()


def test_training_sees_all_pairs_in_every_epoch_in_one_order(folder):
  root, images, labels = folder

  def rows(num_devices):
    batches = mask_batches.train_batches(
      _open(root),
      image_size=8,
      mask_size=8,
      batch_size=4,
      num_steps=5,
      mesh=_mesh(num_devices),
    )
    for batch in batches:
      found = jax.device_get((batch["image"], batch["label"]))
      yield from zip(*found, strict=True)

  order = []
  for image, label in rows(1):
    (number,) = np.flatnonzero((images == image).all(axis=(1, 2, 3)))
    np.testing.assert_array_equal(label, labels[number])
    order.append(number)
  for epoch in range(4):
    assert sorted(order[5 * epoch : 5 * epoch + 5]) == [0, 1, 2, 3, 4]
  assert order[:5] != order[5:10]
  for (image, _), number in zip(rows(2), order, strict=True):
    np.testing.assert_array_equal(image, images[number])


def test_a_training_batch_is_filled_up_with_what_has_no_labels(folder):
  root, _, _ = folder

  def batches(num_devices):
    return jax.device_get(
      list(
        mask_batches.train_batches(
          _open(root),
          image_size=8,
          mask_size=8,
          batch_size=2,
          num_steps=4,
          mesh=_mesh(num_devices),
        )
      )
    )

  for filled, whole in zip(batches(4), batches(1), strict=True):
    assert len(filled["label"]) == 4 and len(whole["label"]) == 2
    assert (filled["label"][2:] == 255).all()
    for name in ("image", "label"):
      np.testing.assert_array_equal(filled[name][:2], whole[name])
