"""Facts of the training data, opened or known."""

import io
import tarfile

import numpy as np
import pytest

from tests import experiments
from vit_jax.config import experiment_file, resolve
from vit_jax.data import facts
from vit_jax.errors import UserError
from vit_jax.training import experiment

# Of the tiny configs, this does not fit a dataset's split.
PLAIN = {"train__preprocess": "decode|inception_crop|flip_lr"}


@pytest.mark.parametrize(
  ("dataset", "split", "classes", "examples"),
  [
    ("imagenet2012", "train", 1000, 1_281_167),
    ("imagenet2012", "train[:50%]+validation", 1000, 640_584 + 50_000),
    ("imagenet2012:5.1.0", "train[:100]", 1000, 100),
    ("cifar100", "train", 100, 50_000),
    ("generated:classes=7,examples=96", "train", 7, 96),
  ],
)
def test_well_known_datasets_are_known(dataset, split, classes, examples):
  config = experiments.config(
    train__dataset=dataset, train__split=split, **PLAIN
  )
  found = facts.without_data(config)
  assert (found.num_classes, found.num_examples) == (classes, examples)


def test_digits_and_generated_data_have_the_facts_of_their_source():
  for dataset in ("digits", "generated:classes=3,labels=2"):
    config = experiments.config(train__dataset=dataset, **PLAIN)
    true = facts.of_source(config, facts.open_data(config))
    found = facts.without_data(config)
    assert found.num_classes == true.num_classes
    assert found.num_examples == true.num_examples
    assert found.features.max_labels == true.features.max_labels


def test_the_config_wins():
  config = experiments.config(
    train__dataset="imagenet2012", model__num_classes=1010, **PLAIN
  )
  assert facts.without_data(config).num_classes == 1010


def test_of_a_stranger_the_config_must_say_what_is_missing():
  changes = {"train__dataset": "our_photos", **PLAIN}
  with pytest.raises(UserError, match="set config.model.num_classes."):
    facts.without_data(experiments.config(**changes))
  with pytest.raises(
    UserError, match="config.model.num_classes and config.total_steps"
  ):
    facts.without_data(
      experiments.config(total_steps=None, total_epochs=3, **changes)
    )
  config = experiments.config(model__num_classes=5, **changes)
  assert facts.without_data(config).num_classes == 5


def test_without_labels_nobody_must_say_how_many_classes_there_are():
  config = experiments.config(
    train__dataset="folder:labels=none",
    train__preprocess="decode|resize|keep('image')",
    objective__name="mae",
    evals={},
  )
  found = facts.without_data(config)
  assert found.num_classes is None
  assert found.features.names == ("image",)


@pytest.mark.parametrize(
  ("arguments", "classes", "labels"),
  [
    ("model=L/16,data=i1k", 1000, 1),
    ("model=L/16,data=i21k", 21_843, 1),
    ("model=L/16,data=jft", 18_291, 8),
  ],
)
def test_the_papers_pretraining_is_known(repo, arguments, classes, labels):
  path = str(repo / "configs" / "pretrain.py")
  config = resolve.resolve(experiment_file.load(path, arguments))
  found = facts.without_data(config)
  assert (found.num_classes, found.features.max_labels) == (classes, labels)
  assert experiment.count_steps(config, found.num_examples) > 90_000


def test_a_model_with_fewer_classes_than_the_data_is_refused():
  config = experiments.config(model__num_classes=3)
  with pytest.raises(UserError, match="less than the 4 classes"):
    facts.of_source(config, facts.open_data(config))


def tar_of_class(tmp_path, number):
  """The dataset of a tar file of one example, of this class."""
  member = tarfile.TarInfo("0.cls")
  member.size = len(number)
  with tarfile.open(tmp_path / "a.tar", "w") as tar:
    tar.addfile(tarfile.TarInfo("0.png"))
    tar.addfile(member, io.BytesIO(number))
  return f"webdataset:{tmp_path}/a.tar"


def test_data_of_more_classes_than_a_head_can_have_are_refused(tmp_path):
  dataset = tar_of_class(tmp_path, b"999999999")
  config = experiments.config(train__dataset=dataset)
  with pytest.raises(UserError, match="a class of number 999999999, .*gaps"):
    facts.of_source(config, facts.open_data(config))


def test_data_of_one_class_are_refused_where_classes_are_learnt(tmp_path):
  dataset = tar_of_class(tmp_path, b"0")
  config = experiments.config(train__dataset=dataset)
  with pytest.raises(UserError, match="has one class, 0; .*label_key"):
    facts.of_source(config, facts.open_data(config))
  several = experiments.config(train__dataset=dataset, model__num_classes=3)
  assert facts.of_source(several, facts.open_data(several)).num_classes == 3


def test_one_class_that_an_op_leaves_is_for_a_sigmoid():
  keep_first = {"train__preprocess": "decode|resize|remap([0, -1, -1, -1])"}
  config = experiments.config(**keep_first)
  with pytest.raises(UserError, match="leaves one class, .*'sigmoid'"):
    facts.of_source(config, facts.open_data(config))
  detector = experiments.config(objective__loss="sigmoid", **keep_first)
  assert facts.of_source(detector, facts.open_data(detector)).num_classes == 1


def test_a_model_may_have_more_classes_than_the_data():
  config = experiments.config(model__num_classes=7)
  assert facts.of_source(config, facts.open_data(config)).num_classes == 7


def test_without_the_data_the_config_must_say_classes_and_steps():
  changes = {"train__dataset": "not_there"}
  config = experiments.config(model__num_classes=7, **changes)
  found, missing = facts.find(config)
  assert found.num_classes == 7
  assert "not_there" in str(missing)
  with pytest.raises(UserError, match="not_there"):
    facts.find(experiments.config(**changes))


def test_numbers_to_predict_need_no_data_where_the_config_counts_them():
  config = experiments.config(
    train__dataset="csv:ages.csv",
    objective__loss="mse",
    evals={},
    model__num_classes=3,
  )
  found = facts.without_data(config)
  assert (found.num_classes, found.targets) == (3, None)
  assert found.features.example_spec()["label"] == ((3,), np.float32)
  config = experiments.config(**experiments.REGRESSION)
  known, true = (
    facts.without_data(config),
    facts.of_source(config, facts.open_data(config)),
  )
  assert known.features == true.features and known.num_classes == 2
  assert true.class_names == true.targets.names == ("red", "green")


def test_without_their_count_the_data_are_needed():
  config = experiments.config(
    train__dataset="csv:ages.csv", objective__loss="mse", evals={}
  )
  with pytest.raises(UserError, match="set config.model.num_classes."):
    facts.without_data(config)


def test_captions_are_opened_if_they_are_learnt_from(tmp_path):
  datasets = pytest.importorskip("datasets")
  images = [{"bytes": b"x", "path": None}] * 4
  datasets.Dataset.from_dict(
    {"image": images, "label": [0, 1] * 2, "title": ["a", None, "b", "c"]},
    features=datasets.Features(
      image=datasets.Image(),
      label=datasets.Value("int64"),
      title=datasets.Value("string"),
    ),
  ).save_to_disk(tmp_path / "d")
  changes = {"train__dataset": f"datasets:{tmp_path}/d", **PLAIN}
  source = facts.open_data(experiments.config(**changes))
  assert source.read(np.arange(4)).keys() == {"image", "label"}
  with_text = [
    {"train__text_key": "title"},
    {"train__preprocess": "decode|inception_crop|tokenize(8)"},
  ]
  for more in with_text:
    with pytest.raises(UserError, match="record 1 .*no caption"):
      facts.open_data(experiments.config(**changes | more))
    more["train__max_bad_examples"] = 1
    found = facts.open_data(experiments.config(**changes | more))
    assert "text" in found.features
