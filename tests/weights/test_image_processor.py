"""Preprocessing as the files beside published checkpoints say it."""

import json

import pytest

from vit_jax.data import spec
from vit_jax.errors import UserError
from vit_jax.weights import image_processor
from vit_jax.weights.image_processor import ImageProcessor

SQUARE = {"height": 224, "width": 224}
TIMM = {
  "decode|resize_small(scale=1.10714, method='bicubic', antialias=True,"
  " rounding='down')|central_crop(rounding='nearest')": {
    "input_size": [3, 224, 224],
    "crop_pct": 0.9,
    "interpolation": "bicubic",
    "crop_mode": "center",
  },
  "decode|resize_small(scale=1, method='bicubic', antialias=True,"
  " rounding='down')|central_crop(rounding='nearest')": {
    "input_size": [3, 384, 384],
    "crop_pct": 1.0,
    "interpolation": "bicubic",
  },
  "decode|resize(method='bilinear', antialias=True)": {
    "input_size": [3, 448, 448],
    "crop_pct": 1.0,
    "interpolation": "bilinear",
    "crop_mode": "squash",
  },
}


def read(path, **files):
  for name, content in files.items():
    (path / f"{name}.json").write_text(json.dumps(content))
  return image_processor.read(path)


@pytest.mark.parametrize("preprocess", TIMM)
def test_a_timm_config_becomes_ops(tmp_path, preprocess):
  config = {"architecture": "vit", "pretrained_cfg": TIMM[preprocess]}
  found = read(tmp_path, config=config)
  size = TIMM[preprocess]["input_size"][1]
  spec.check(found.preprocess, size, where="preprocess", train=False)
  assert found.preprocess == preprocess


def test_a_multi_label_head_is_read_by_a_sigmoid(tmp_path):
  found = read(tmp_path, config={"problem_type": "multi_label_classification"})
  assert found == ImageProcessor(None, "sigmoid")


def test_other_files_say_nothing(tmp_path):
  (tmp_path / "a.npz").write_bytes(b"")
  (tmp_path / "preprocessor_config.json").write_text("[")
  assert image_processor.read(tmp_path / "a.npz") == ImageProcessor()
  assert read(tmp_path, preprocessor_config={"do_resize": False}) == (
    ImageProcessor()
  )


def test_the_files_beside_a_safetensors_file_count(tmp_path):
  (tmp_path / "model.safetensors").write_bytes(b"")
  whole = read(tmp_path, preprocessor_config={"size": SQUARE})
  assert image_processor.read(tmp_path / "model.safetensors") == whole


@pytest.mark.parametrize("path", ["last.pth.tar", "last.pth.tar/model_ema"])
def test_the_files_beside_a_pickle_count(tmp_path, path):
  (tmp_path / "last.pth.tar").write_bytes(b"")
  whole = read(tmp_path, preprocessor_config={"size": SQUARE})
  assert whole.preprocess is not None
  assert image_processor.read(tmp_path / path) == whole


HOW = "method='bicubic', antialias=True"
ROUNDED = "rounding='down')|central_crop(rounding='nearest')"


@pytest.mark.parametrize(
  ("settings", "preprocess"),
  [
    # Defaults of open_clip's PreprocessCfg: 'shortest' and 'bicubic'.
    (None, f"decode|resize_small(scale=1, {HOW}, {ROUNDED}"),
    ({}, f"decode|resize_small(scale=1, {HOW}, {ROUNDED}"),
    (
      {"resize_mode": "shortest", "interpolation": "bilinear"},
      "decode|resize_small(scale=1, method='bilinear', antialias=True,"
      f" {ROUNDED}",
    ),
    ({"resize_mode": "squash"}, f"decode|resize({HOW})"),
    (
      {"resize_mode": "squash", "interpolation": "random"},
      f"decode|resize({HOW})",
    ),
  ],
)
def test_open_clips_config_becomes_ops(tmp_path, settings, preprocess):
  config = {"model_cfg": {}, "preprocess_cfg": settings}
  found = read(tmp_path, open_clip_config=config)
  spec.check(found.preprocess, 224, where="preprocess", train=False)
  assert found == ImageProcessor(preprocess, "softmax")
  config[image_processor.OURS] = "decode|resize(240)|central_crop"
  assert read(tmp_path, open_clip_config=config).preprocess == (
    "decode|resize(240)|central_crop"
  )


def test_a_preprocessors_file_comes_before_open_clips(tmp_path):
  found = read(
    tmp_path,
    open_clip_config={"preprocess_cfg": {"resize_mode": "shortest"}},
    preprocessor_config={"resample": 3, "size": SQUARE},
  )
  assert found.preprocess == f"decode|resize({HOW})"


def test_a_mode_of_open_clip_that_pads_is_refused(tmp_path):
  config = {"preprocess_cfg": {"resize_mode": "longest"}}
  with pytest.raises(UserError, match='resize_mode = "longest" is neither'):
    read(tmp_path, open_clip_config=config)


@pytest.mark.parametrize(
  "processor",
  [[], {"size": "big"}, {"size": {"height": -1}}, {"do_resize": "yes"}],
)
def test_a_damaged_file_is_a_sentence(tmp_path, processor):
  with pytest.raises(UserError, match="preprocessor_config.json"):
    read(tmp_path, preprocessor_config=processor)


def test_an_older_config_of_timm_has_its_keys_beside_the_name(tmp_path):
  settings = TIMM[next(iter(TIMM))]
  flat = read(tmp_path, config={"architecture": "vit_x", **settings})
  nested = {"architecture": "vit_x", "pretrained_cfg": settings}
  assert flat == read(tmp_path, config=nested)
  assert flat.preprocess == next(iter(TIMM))


def test_a_mode_of_timm_that_pads_is_refused(tmp_path):
  config = {"pretrained_cfg": {"crop_mode": "border"}}
  with pytest.raises(UserError, match='crop_mode = "border" is neither'):
    read(tmp_path, config=config)


def test_a_window_of_timm_that_the_ops_lack_is_told(tmp_path):
  for name, method in {"lanczos": "bicubic", "hamming": "area"}.items():
    found = read(tmp_path, config={"pretrained_cfg": {"interpolation": name}})
    assert f"method='{method}'" in found.preprocess
    assert bool(found.notes) == (name == "lanczos")


@pytest.mark.parametrize("part", [0, -0.5, 1.5])
def test_a_crop_of_nothing_is_a_sentence(tmp_path, part):
  with pytest.raises(UserError, match="crop_pct = "):
    read(tmp_path, config={"pretrained_cfg": {"crop_pct": part}})
