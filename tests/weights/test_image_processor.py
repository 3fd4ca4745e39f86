"""Preprocessing as the files beside published checkpoints say it."""

import json

import pytest

from vit_jax.data import spec
from vit_jax.errors import UserError
from vit_jax.weights import image_processor
from vit_jax.weights.image_processor import ImageProcessor

SQUARE = {"height": 224, "width": 224}
# As transformers and timm write them: ViT, DeiT, BiT, ConvNeXt, older files.
PROCESSORS = {
  "decode|resize(method='bilinear', antialias=True)": [
    {"do_resize": True, "resample": 2, "size": SQUARE},
    {"do_resize": True, "resample": 2, "size": 224},
    {"size": SQUARE, "crop_size": SQUARE, "do_center_crop": False},
    {"size": {"shortest_edge": 384}, "crop_pct": 0.875},
  ],
  "decode|resize(256, method='bicubic', antialias=True)|central_crop": [
    {
      "resample": 3,
      "size": {"height": 256, "width": 256},
      "do_center_crop": True,
      "crop_size": SQUARE,
    }
  ],
  "decode|resize_small(scale=1.14286, method='bicubic', antialias=True)"
  "|central_crop": [
    {
      "resample": 3,
      "size": {"shortest_edge": 256},
      "do_center_crop": True,
      "crop_size": 224,
    },
    {"resample": 3, "size": {"shortest_edge": 224}, "crop_pct": 0.875},
  ],
}
TIMM = {
  "decode|resize_small(scale=1.10714, method='bicubic', antialias=True)"
  "|central_crop": {
    "input_size": [3, 224, 224],
    "crop_pct": 0.9,
    "interpolation": "bicubic",
    "crop_mode": "center",
  },
  "decode|resize_small(scale=1, method='bicubic', antialias=True)"
  "|central_crop": {
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


@pytest.mark.parametrize("preprocess", PROCESSORS)
def test_a_hugging_face_processor_becomes_ops(tmp_path, preprocess):
  for processor in PROCESSORS[preprocess]:
    found = read(tmp_path, preprocessor_config=processor)
    assert found == ImageProcessor(preprocess, "softmax")
    spec.check(found.preprocess, 224, where="preprocess", train=False)


@pytest.mark.parametrize(
  ("named", "is_square"),
  [
    # As transformers 5.23 makes a size of the number.
    ({"image_processor_type": "CLIPImageProcessor"}, False),
    ({"image_processor_type": "CLIPImageProcessorFast"}, False),
    ({"feature_extractor_type": "CLIPFeatureExtractor"}, False),
    ({"image_processor_type": "BitImageProcessor"}, False),
    ({"image_processor_type": "ViTImageProcessor"}, True),
    ({"image_processor_type": "DeiTImageProcessor"}, True),
    ({"image_processor_type": "BeitImageProcessor"}, True),
    ({"feature_extractor_type": "ViTFeatureExtractor"}, True),
    # That one crops nothing, and our networks take squares alone.
    ({"image_processor_type": "SiglipImageProcessor"}, True),
    ({}, True),
  ],
)
def test_one_number_is_the_side_that_its_processor_takes_it_for(
  tmp_path, named, is_square
):
  sides = {"size": 224, "crop_size": 224, "do_center_crop": True}
  found = read(tmp_path, preprocessor_config={**sides, "resample": 3, **named})
  how = "method='bicubic', antialias=True"
  wanted = f"decode|resize_small(scale=1, {how})|central_crop"
  assert found.preprocess == (f"decode|resize({how})" if is_square else wanted)


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


@pytest.mark.parametrize(
  ("preprocess", "keys"),
  [
    (None, {"resample": 2}),
    ("decode|resize", {"resample": 2}),
    ("decode|resize(method='bicubic', antialias=True)", {"resample": 3}),
    (
      "decode|resize(256)|central_crop",
      {
        "resample": 2,
        "size": {"height": 256, "width": 256},
        "do_center_crop": True,
        "crop_size": {"height": 224, "width": 224},
      },
    ),
    ("decode|resize_small(256)|random_crop", {"resample": 2}),
    (
      "decode| resize_small(scale=1.1429) |central_crop",
      {
        "resample": 2,
        "size": {"shortest_edge": 256},
        "do_center_crop": True,
        "crop_size": SQUARE,
      },
    ),
    (
      "decode|resize_small(240, method='bicubic')|central_crop(224)",
      {
        "resample": 3,
        "size": {"shortest_edge": 240},
        "do_center_crop": True,
        "crop_size": SQUARE,
      },
    ),
  ],
)
def test_ops_are_told_as_near_as_they_can_be_and_come_back_as_they_were(
  tmp_path, preprocess, keys
):
  told = image_processor.resizing(preprocess, 224)
  assert told.items() >= keys.items()
  assert ("size" in told) == ("size" in keys)
  if preprocess is not None:
    assert read(tmp_path, preprocessor_config=told).preprocess == preprocess


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


HOW = "method='bicubic', antialias=True"


@pytest.mark.parametrize(
  ("settings", "preprocess"),
  [
    # Defaults of open_clip's PreprocessCfg: 'shortest' and 'bicubic'.
    (None, f"decode|resize_small(scale=1, {HOW})|central_crop"),
    ({}, f"decode|resize_small(scale=1, {HOW})|central_crop"),
    (
      {"resize_mode": "shortest", "interpolation": "bilinear"},
      "decode|resize_small(scale=1, method='bilinear', antialias=True)"
      "|central_crop",
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


@pytest.mark.parametrize("part", [0, -0.5, 1.5])
def test_a_crop_of_nothing_is_a_sentence(tmp_path, part):
  with pytest.raises(UserError, match="crop_pct = "):
    read(tmp_path, config={"pretrained_cfg": {"crop_pct": part}})
