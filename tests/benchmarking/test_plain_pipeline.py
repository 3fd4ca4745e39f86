import numpy as np
import pytest
from PIL import Image

from vit_jax.benchmarking import plain_pipeline
from vit_jax.data import folder, spec
from vit_jax.errors import UserError


@pytest.mark.parametrize(
  "text",
  [
    "decode|resize",
    "decode|inception_crop(area_min=9)|flip_lr",
    "decode|random_resized_crop|randaug(1, 9, 0.5)|flip_lr",
  ],
)
def test_it_yields_batches_like_ours(text, jpegs):
  batches = plain_pipeline.batches(jpegs, spec.parse(text, 16), batch_size=6)
  for _ in range(5):  # More than an epoch.
    batch = next(batches)
    assert batch["image"].shape == (6, 16, 16, 3)
    assert batch["image"].dtype == np.uint8
    assert batch["label"].shape == (6,)


def test_it_reads_the_files_of_a_folder(jpegs, tmp_path):
  for label in "ab":
    (tmp_path / "train" / label).mkdir(parents=True)
    for i, data in enumerate(jpegs.images):
      (tmp_path / "train" / label / f"{i}.jpg").write_bytes(data)
  source = folder.open_source("", "train", data_dir=str(tmp_path))
  batches = plain_pipeline.batches(
    source, spec.parse("decode|resize", 16), batch_size=40
  )
  assert np.bincount(next(batches)["label"]).tolist() == [20, 20]


@pytest.mark.parametrize("form", ["PNG", "WEBP", "BMP"])
@pytest.mark.parametrize("text", ["decode|resize", "decode|inception_crop"])
def test_it_reads_other_formats(form, text, tmp_path):
  rng = np.random.default_rng(0)
  for label in "ab":
    (tmp_path / "train" / label).mkdir(parents=True)
    for i in range(4):
      image = Image.fromarray(rng.integers(0, 256, (20, 30, 3), np.uint8))
      image.save(tmp_path / "train" / label / f"{i}.{form.lower()}")
  source = folder.open_source("", "train", data_dir=str(tmp_path))
  batch = next(
    plain_pipeline.batches(source, spec.parse(text, 16), batch_size=8)
  )
  assert batch["image"].shape == (8, 16, 16, 3)
  assert np.bincount(batch["label"]).tolist() == [4, 4]


def test_images_of_several_formats_are_refused(tmp_path):
  for name in ("a/1.png", "b/1.bmp"):
    (tmp_path / "train" / name).parent.mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "train" / name)
  source = folder.open_source("", "train", data_dir=str(tmp_path))
  with pytest.raises(UserError, match="these are of several"):
    plain_pipeline.batches(source, spec.parse("decode|resize", 8), batch_size=2)


def test_what_has_no_plain_form_is_refused(raw, jpegs):
  with pytest.raises(UserError, match="these are pixels"):
    plain_pipeline.batches(raw, spec.parse("decode|resize", 16), batch_size=4)
  for text in ("decode|pad(2)|random_crop", "decode|resize|random_crop"):
    with pytest.raises(UserError, match="no plain form"):
      plain_pipeline.batches(jpegs, spec.parse(text, 16), batch_size=4)
