import subprocess
import sys

import numpy as np
import pytest

from vit_jax.data import registry, spec
from vit_jax.errors import UserError


def test_ops_are_read_with_their_arguments_and_defaults():
  preprocess = spec.parse("decode|inception_crop(160, area_min=8)|flip_lr", 224)
  crop = preprocess.calls[1]
  assert [call.name for call in preprocess.calls] == [
    "decode",
    "inception_crop",
    "flip_lr",
  ]
  assert crop.kwargs["size"] == 160
  assert crop.kwargs["area_min"] == 8
  assert crop.kwargs["area_max"] == 100
  assert [call.name for call in preprocess.of_kind("device")] == ["flip_lr"]


def test_spaces_and_empty_brackets_are_allowed():
  text = " decode() | resize( 32 ) |flip_lr "
  assert len(spec.check(text, 32).calls) == 3


@pytest.mark.parametrize("size", [32, 224])
def test_a_size_left_out_is_the_models(size):
  preprocess = spec.check("decode|resize_small(scale=1.1429)|random_crop", size)
  assert preprocess.calls[1].kwargs["size"] == size
  assert preprocess.calls[2].kwargs["size"] == size
  assert preprocess.side(None) == size


@pytest.mark.parametrize(
  ("text", "says"),
  [
    (
      "decode|inception_cropp(224)|flip_lr",
      'op 2 "inception_cropp(224)" (character 8 of .* is not known. Did you'
      ' mean "inception_crop"?.* Known ops: central_crop, color_jitter, decode',
    ),
    ("decode|  flip_rl", 'op 2 "flip_rl" (character 10 .*mean "flip_lr"?'),
    ("decode|resize|xyz", 'op 3 "xyz" (character 15 .*known. Known ops'),
    ("", 'op 1 "" (character 1 .* is empty'),
    ("decode||resize", 'op 2 "" (character 8 .* is empty'),
    ("decode|resize(3", "op 2 .* cannot be read"),
    ("decode|tf.resize(3)", "op 2 .* cannot be read"),
    (
      "decode|resize(sighs=3)",
      "unexpected keyword argument 'sighs'.*size, method, antialias",
    ),
    ("decode|resize('big')", "size = 'big' is not valid"),
    ("decode|resize(3.5)", "size = 3.5 is not valid"),
    ("decode|resize(0)", "size = 0 is not valid"),
    ("decode|resize(8, 'spline')", "method = 'spline' is not valid"),
    ("decode|resize(size)", "arguments are written out"),
    ("decode|resize(**{'size': 3})", "keywords must be strings"),
    ("decode|resize(1, 'area', True, 1.0, 4)", "too many positional arguments"),
    ("decode|resize(1, size=1)", "multiple values for argument 'size'"),
    ("decode|pad|resize", "'pixels' is missing"),
    ("decode|resize|pad_labels", "'size' is missing"),
    ("decode|flip_lr|resize", "op 3 .* runs on the host, but flip_lr"),
    ("resize|decode", 'has to begin with "decode"'),
    ("flip_lr", 'has to begin with "decode"'),
    ("decode|value_range(-1, 1)", "normalised by the model"),
    ("decode|resize|keep('label')", "'image' has to be kept"),
    ("decode|resize|remap([0, -2])", "table = (0, -2) is not valid"),
    ("decode|inception_crop(area_min=9, area_max=8)", "area_min = 9.* is more"),
    ("decode|inception_crop(ratio_min=2.0)", "ratio_min = 2.0 is more"),
  ],
)
def test_a_mistake_is_named_with_its_position(text, says):
  with pytest.raises(UserError) as error:
    spec.check(text, 224, where="config.train.preprocess")
  message = str(error.value)
  assert message.startswith("config.train.preprocess")
  for part in says.split(".*"):
    assert part in message


@pytest.mark.parametrize(
  ("text", "says"),
  [
    ("decode|resize(256)", "yields images of 256 x 256 pixels"),
    ("decode|resize_small(256)", "leaves images of various sizes"),
    ("decode|resize|pad(4)", "yields images of 232 x 232 pixels"),
  ],
)
def test_images_of_another_size_than_the_models_are_refused(text, says):
  with pytest.raises(UserError, match=says):
    spec.check(text, 224)


@pytest.mark.parametrize("text", ["decode", "decode|pad(4)|flip_lr"])
def test_what_only_the_source_can_tell_is_left_open(text):
  spec.check(text, 224)


@pytest.mark.parametrize(
  ("text", "dataset", "says"),
  [
    ("random_crop(40)|resize", "cifar10:3.0.2", "op 2 .* a side has 32"),
    ("central_crop(9)|resize", "digits", "op 2 .* a side has 8"),
    ("random_crop(17)|resize", "generated:size=16", "op 2 .* a side has 16"),
    ("pad(4)|random_crop(25)|resize", "generated:size=16", "op 3 .* has 24"),
    ("resize(30)|random_crop|flip_lr", None, 'op 3 "random_crop" .* has 30'),
    ("resize_small(28)|central_crop", None, "op 3 .* of which a side has 28"),
    ("pad(4)", "imagenet2012", "leaves images of various sizes"),
    ("flip_lr", "generated:size=16", "yields images of 16 x 16 pixels"),
  ],
)
def test_what_the_name_of_the_data_tells_is_checked(text, dataset, says):
  with pytest.raises(UserError, match=says):
    spec.check(f"decode|{text}", 32, dataset=dataset)


@pytest.mark.parametrize(
  ("text", "dataset"),
  [
    ("random_crop(32)|resize", "cifar10"),
    ("pad(4)|random_crop", "cifar10"),
    ("random_crop", "imagenet2012"),
    ("resize_small(scale=1.1)|central_crop", "digits"),
    ("flip_lr", "generated:size=32"),
  ],
)
def test_crops_that_images_have_are_taken(text, dataset):
  spec.check(f"decode|{text}", 32, dataset=dataset)


@pytest.mark.parametrize(
  ("op", "says"),
  [
    ("keep", "'image' has to be kept"),
    ("keep(keys='image')", r"unexpected keyword argument 'keys'.*: \*keys"),
    ("random_crop(" + "(" * 200, "cannot be read"),
    ("random_crop(" + "-" * 3000 + "1)", "cannot be read"),
  ],
)
def test_calls_that_no_op_has_are_refused(op, says):
  with pytest.raises(UserError, match=says):
    spec.check(f"decode|{op}", 32)


def test_an_evaluation_refuses_ops_of_the_step():
  with pytest.raises(UserError, match=r"op 3 .* leave it out of an evaluation"):
    spec.check("decode|resize|flip_lr", 224, train=False)


def test_repeated_ops_have_names_of_their_own():
  preprocess = spec.parse("decode|pad(2)|random_crop(9)|random_crop(8)", 8)
  names = [call.name for call in preprocess.calls]
  assert names[-2:] == ["random_crop", "random_crop_2"]


def test_label_ops_change_the_labels_and_what_is_said_of_them():
  preprocess = spec.parse("decode|resize|remap([2, 0, 0])|pad_labels(2)", 8)
  assert preprocess.label_space(3, 1) == (3, 2)
  labels = preprocess.labels(np.array([0, 1, 2], np.int32))
  assert labels.tolist() == [[2, -1], [0, -1], [0, -1]]
  assert preprocess.has_labels


def test_a_label_op_that_does_not_suit_the_dataset_is_named():
  preprocess = spec.parse("decode|resize|remap([2, 0, 0])", 8)
  with pytest.raises(UserError, match=r"op 3 .*3 entries, the dataset 5 cl"):
    preprocess.label_space(5, 1)


def test_pad_labels_sets_the_number_of_labels_of_any_dataset():
  preprocess = spec.parse("decode|resize|pad_labels(2)", 8)
  assert preprocess.label_space(5, 1) == preprocess.label_space(5, 32) == (5, 2)


def test_labels_can_be_dropped():
  preprocess = spec.parse("decode|resize|keep('image')", 8)
  assert preprocess.labels(np.array([1])) is None
  assert not preprocess.has_labels


def test_two_ops_of_one_name_are_refused():
  def decode():
    pass

  with pytest.raises(ValueError, match="two preprocessing ops called 'decode'"):
    registry.register("image")(decode)


def test_checking_a_string_imports_neither_tensorflow_nor_jax(repo):
  code = (
    "import sys; from vit_jax.data import spec;"
    "spec.check('decode|inception_crop|flip_lr', 224);"
    "sys.exit(any(m in sys.modules for m in ('tensorflow', 'jax')))"
  )
  subprocess.run([sys.executable, "-c", code], cwd=repo, check=True)
