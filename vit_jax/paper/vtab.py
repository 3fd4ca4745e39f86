"""VTAB-1k: nineteen tasks of 1000 labelled images each.

Splits, classes and groups of google-research/task_adaptation, arXiv 1910.04867.
Its score is the mean over the tasks, each counting the same.
"""

import dataclasses
from collections.abc import Mapping

GROUPS = {
  "natural": "Natural",
  "specialized": "Specialized",
  "structured": "Structured",
}


@dataclasses.dataclass(frozen=True)
class Task:
  """A task.

  Attributes:
    title: Name of the task in Table 9.
    group: A key of `GROUPS`.
    dataset: TFDS name.
    num_classes: Number of classes of its labels.
    dev: Split of the 200 examples that settings are compared on; training then
      has train[:800], and all 1000 once a setting is chosen.
    test: Split that is reported on.
    label_key: Label as `train.label_key` names it; of five tasks one that is
      computed from other features.
  """

  title: str
  group: str
  dataset: str
  num_classes: int
  dev: str
  test: str = "test"
  label_key: str = "label"

  @property
  def train(self) -> str:
    """All 1000 examples."""
    return f"train[:800]+{self.dev}"


def _natural(title, dataset, num_classes, dev="validation[:200]") -> Task:
  return Task(title, "natural", dataset, num_classes, dev)


def _specialized(
  title, dataset, num_classes, dev="validation[:200]", test="test"
) -> Task:
  return Task(title, "specialized", dataset, num_classes, dev, test)


def _structured(
  title, dataset, num_classes, dev, test="test", label_key="label"
) -> Task:
  return Task(title, "structured", dataset, num_classes, dev, test, label_key)


_CLEVR = ("train[63000:63200]", "validation")
_DSPRITES = ("train[589824:590024]", "train[663552:]")
_NORB = ("test[:200]", "test[50%:]")
# In the order of Table 9.
TASKS = {
  "caltech101": _natural("Caltech101", "caltech101", 102, "train[2754:2954]"),
  "cifar100": _natural("CIFAR-100", "cifar100", 100, "train[45000:45200]"),
  "dtd": _natural("DTD", "dtd", 47),
  "flowers": _natural("Flowers102", "oxford_flowers102", 102),
  "pets": _natural("Pets", "oxford_iiit_pet", 37, "train[2944:3144]"),
  "sun397": _natural("Sun397", "sun397/tfds", 397),
  "svhn": _natural("SVHN", "svhn_cropped", 10, "train[65931:66131]"),
  "camelyon": _specialized("Camelyon", "patch_camelyon", 2),
  "eurosat": _specialized(
    "EuroSAT", "eurosat/rgb", 10, "train[16200:16400]", "train[21600:]"
  ),
  "resisc45": _specialized(
    "Resisc45", "resisc45", 45, "train[18900:19100]", "train[25200:]"
  ),
  "retinopathy": _specialized(
    "Retinopathy", "diabetic_retinopathy_detection/btgraham-300", 5
  ),
  "clevr_count": _structured("Clevr-Count", "clevr", 8, *_CLEVR, "count_all"),
  "clevr_distance": _structured(
    "Clevr-Dist", "clevr", 6, *_CLEVR, "closest_object_distance"
  ),
  "dmlab": _structured("DMLab", "dmlab", 6, "validation[:200]"),
  "dsprites_location": _structured(
    "dSpr-Loc", "dsprites", 16, *_DSPRITES, "label_x_position_in_16"
  ),
  "dsprites_orientation": _structured(
    "dSpr-Ori", "dsprites", 16, *_DSPRITES, "label_orientation_in_16"
  ),
  "kitti": _structured(
    "KITTI-Dist",
    "kitti",
    4,
    "validation[:200]",
    label_key="closest_vehicle_distance",
  ),
  "smallnorb_azimuth": _structured(
    "sNORB-Azim", "smallnorb", 18, *_NORB, "label_azimuth"
  ),
  "smallnorb_elevation": _structured(
    "sNORB-Elev", "smallnorb", 9, *_NORB, "label_elevation"
  ),
}


@dataclasses.dataclass(frozen=True)
class Mean:
  """An unweighted mean over the tasks of a group that have a value.

  Attributes:
    value: None if none has.
    over: Number of tasks in the mean.
    of: Number of tasks in the group.
  """

  value: float | None
  over: int
  of: int


def means(accuracies: Mapping[str, float]) -> dict[str, Mean]:
  """Means over each group and, called 'mean', over all nineteen tasks.

  Args:
    accuracies: Accuracies by task; other keys are ignored.
  """
  parts = {
    name: [task for task in TASKS if TASKS[task].group == name]
    for name in GROUPS
  }
  parts["mean"] = list(TASKS)
  found = {}
  for name, tasks in parts.items():
    values = [accuracies[task] for task in tasks if task in accuracies]
    value = sum(values) / len(values) if values else None
    found[name] = Mean(value, len(values), len(tasks))
  return found


def group_means(accuracies: Mapping[str, float]) -> dict[str, float]:
  """Means of the groups of which all tasks are there, and of all nineteen.

  Args:
    accuracies: Accuracies by task; other keys are ignored.

  Returns:
    Group, or 'mean', -> mean over its tasks. A mean over fewer tasks is
    another number, so it is left out.
  """
  return {
    name: mean.value
    for name, mean in means(accuracies).items()
    if mean.over == mean.of
  }
