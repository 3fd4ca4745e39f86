"""Hugging Face's image processors, as they are read and written."""

import json

import pytest
from etils import epath

from vit_jax.data import spec
from vit_jax.errors import UserError
from vit_jax.weights import huggingface_processor, image_processor
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
  "decode|resize_small(scale=1.14286, method='bicubic', antialias=True,"
  " rounding='down')|central_crop": [
    {
      "resample": 3,
      "size": {"shortest_edge": 256},
      "do_center_crop": True,
      "crop_size": 224,
    },
    {"resample": 3, "size": {"shortest_edge": 224}, "crop_pct": 0.875},
  ],
}


def read(path, name="preprocessor_config", **values):
  (path / f"{name}.json").write_text(json.dumps(values))
  return image_processor.read(path)


@pytest.mark.parametrize("preprocess", PROCESSORS)
def test_a_hugging_face_processor_becomes_ops(tmp_path, preprocess):
  for processor in PROCESSORS[preprocess]:
    found = read(tmp_path, **processor)
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
  found = read(tmp_path, **sides, resample=3, **named)
  how = "method='bicubic', antialias=True"
  wanted = f"decode|resize_small(scale=1, {how}, rounding='down')|central_crop"
  assert found.preprocess == (f"decode|resize({how})" if is_square else wanted)


# transformers 5.23: what `Class()` has.
CROP = {"do_center_crop": True, "crop_size": SQUARE}
CLASSES = {
  "CLIP": {"resample": 3, "size": {"shortest_edge": 224}, **CROP},
  "Bit": {"resample": 3, "size": {"shortest_edge": 224}, **CROP},
  "DeiT": {"resample": 3, "size": {"height": 256, "width": 256}, **CROP},
  "Beit": {"resample": 3, "size": SQUARE, "do_center_crop": False},
  "ViT": {"resample": 2, "size": SQUARE},
  "Siglip": {"resample": 3, "size": SQUARE},
  "Pvt": {"resample": 3, "size": SQUARE},
  "ConvNext": {
    "resample": 3,
    "size": {"shortest_edge": 384},
    "crop_pct": 0.875,
  },
}


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("suffix", ["ImageProcessor", "ImageProcessorFast"])
def test_keys_that_a_file_lacks_are_those_of_its_class(tmp_path, name, suffix):
  whole = read(tmp_path, **CLASSES[name])
  kind = {"image_processor_type": name + suffix}
  assert read(tmp_path, **kind) == whole
  for key in CLASSES[name]:
    others = {k: x for k, x in CLASSES[name].items() if k != key}
    assert read(tmp_path, **kind, **others) == whole, key
    assert read(tmp_path, **kind, **others, **{key: None}) == whole, key


def test_pixels_are_normalised_as_the_class_does_where_a_file_is_silent(
  tmp_path,
):
  for name, mean in {"Bit": 0.48145466, "ViT": 0.5, "Pvt": 0.485}.items():
    kind = f"{name}ImageProcessor"
    (tmp_path / "preprocessor_config.json").write_text(
      json.dumps({"image_processor_type": kind})
    )
    found = huggingface_processor.find(epath.Path(tmp_path))
    assert found.values["image_mean"][0] == mean


def test_a_processor_of_images_and_texts_comes_first(tmp_path):
  """As transformers 5 writes a CLIP's, and reads it."""
  inner = {"resample": 3, "size": {"shortest_edge": 224}, **CROP}
  wanted = read(tmp_path, **inner)
  (tmp_path / "preprocessor_config.json").unlink()
  assert read(tmp_path, "processor_config", image_processor=inner) == wanted
  assert read(tmp_path, resample=2, size=SQUARE) == wanted
  # Older ones have the text's keys alone.
  (tmp_path / "processor_config.json").write_text('{"processor_class": "X"}')
  assert read(tmp_path, resample=2, size=SQUARE) != wanted


def test_an_image_that_is_not_resized_may_be_cropped(tmp_path):
  found = read(tmp_path, do_resize=False, size=SQUARE, **CROP)
  assert found.preprocess == "decode|central_crop"


@pytest.mark.parametrize(
  ("keys", "sentence"),
  [
    ({"resample": 0, "size": SQUARE}, "asks for nearest neighbours"),
    ({"resample": 1, "size": SQUARE}, "asks for Lanczos' window"),
    (
      {"size": {"shortest_edge": 200}, **CROP},
      "resizes to 200 and adds a black border",
    ),
    ({"size": {"shortest_edge": 224}}, "keeps them whole"),
  ],
)
def test_what_the_ops_cannot_do_is_told(tmp_path, keys, sentence):
  found = read(tmp_path, **keys)
  (note,) = found.notes
  assert sentence in note


def test_a_damaged_number_of_a_window_is_a_sentence(tmp_path):
  with pytest.raises(UserError, match="resample = .* is not a number"):
    read(tmp_path, resample=[3], size=SQUARE)


SQUASHED = {"size": SQUARE, "do_center_crop": False}


@pytest.mark.parametrize(
  ("preprocess", "keys"),
  [
    (None, {}),
    ("decode|resize", {"resample": 2, **SQUASHED}),
    (
      "decode|resize(method='bicubic', antialias=True)",
      {"resample": 3, **SQUASHED},
    ),
    (
      "decode|resize(256)|central_crop",
      {"resample": 2, "size": {"height": 256, "width": 256}, **CROP},
    ),
    ("decode|resize_small(256)|random_crop", {"resample": 2, **SQUASHED}),
    ("decode|central_crop", {"resample": 2, **SQUASHED}),
    (
      "decode| resize_small(scale=1.1429) |central_crop",
      {"resample": 3, "size": {"shortest_edge": 256}, **CROP},
    ),
    (
      "decode|resize_small(240, method='bicubic')|central_crop(224)",
      {"resample": 3, "size": {"shortest_edge": 240}, **CROP},
    ),
  ],
)
def test_ops_are_told_as_near_as_they_can_be_and_come_back_as_they_were(
  tmp_path, preprocess, keys
):
  told, _ = huggingface_processor.described(preprocess, 224)
  assert told.items() >= keys.items()
  assert ("size" in told) == ("size" in keys)
  if preprocess is not None:
    assert read(tmp_path, **told).preprocess == preprocess


@pytest.mark.parametrize(
  ("ops", "words"),
  [
    ("decode|resize(antialias=True)", []),
    ("decode|resize", ["antialias=True only"]),
    # Hugging Face rounds both down.
    (
      "decode|resize_small(256, method='bicubic', antialias=True,"
      " rounding='down')|central_crop",
      [],
    ),
    (
      "decode|resize_small(256, method='bicubic', antialias=True)|central_crop",
      ["rounded differently"],
    ),
    (
      "decode|resize(255, antialias=True)|central_crop(rounding='nearest')",
      ["rounded differently"],
    ),
    ("decode|resize(256, antialias=True)|central_crop", []),
    ("decode|resize(method='area')", ["not by areas"]),
    ("decode|central_crop", ["images become squares"]),
  ],
)
def test_differences_that_remain_are_told(ops, words):
  _, notes = huggingface_processor.described(ops, 224)
  others = [note for note in notes if "JPEG" not in note]
  assert len(notes) == len(others) + 1
  for note, word in zip(others, words, strict=True):
    assert word in note
