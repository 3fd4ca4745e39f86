import numpy as np
import pytest

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


def test_what_has_no_plain_form_is_refused(raw, jpegs):
  with pytest.raises(UserError, match="JPEG images only"):
    plain_pipeline.batches(raw, spec.parse("decode|resize", 16), batch_size=4)
  for text in ("decode|pad(2)|random_crop", "decode|resize|random_crop"):
    with pytest.raises(UserError, match="no plain form"):
      plain_pipeline.batches(jpegs, spec.parse(text, 16), batch_size=4)
