"""docs/evaluation.md: its command runs, and its numbers are the defaults."""

import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from tests.data.building import pictures
from vit_jax import checks
from vit_jax.config import experiment_file, named_sections, resolve, schema
from vit_jax.evaluators import probe_protocols

REPO = pathlib.Path(__file__).parents[1]
PAGE = (REPO / "docs/evaluation.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())
COMMANDS = [
  line
  for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
  for line in block.splitlines()
]
# Others want data of the network's; the first two are parts of this one.
(COMPARING,) = [command for command in COMMANDS if "--output" in command]
(OWN_IMAGES,) = [c for c in COMMANDS if "--checkpoint=runs/dino" in c]
# The quickstart with a hundredth of its steps; it keeps the last two of three
# checkpoints, as the whole run does.
TRAIN = (
  "python -m vit_jax.train --config=configs/quickstart.py"
  " --workdir=runs/quickstart --config.total_steps=12"
  " --config.schedule.warmup_steps=1 --config.checkpoint.every_steps=5"
)


def run(command, place):
  words = shlex.split(command)
  result = subprocess.run(
    [sys.executable, *words[1:]],
    capture_output=True,
    text=True,
    cwd=place,
    env=os.environ | {"PYTHONPATH": str(REPO)},
  )
  assert result.returncode == 0, result.stderr


def hundredth(step: re.Match) -> str:
  return f"checkpoints/{int(step[1]) // 100}"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
  """A folder with the short run, and photos with ten images a class."""
  place = tmp_path_factory.mktemp("evaluation")
  run(TRAIN, place)
  pictures.folder(place / "photos", train=30, val=6)
  return place


@pytest.mark.exhaustive
def test_the_comparison_runs(place):
  run(re.sub(r"checkpoints/(\d+)", hundredth, COMPARING), place)
  compared = json.loads((place / "compared.json").read_text())
  assert [value["step"] for value in compared.values()] == [12, 10]
  assert "runs/quickstart/checkpoints/10" in compared
  page = (place / "compared.html").read_text()
  assert "2 checkpoints compared" in page


@pytest.mark.exhaustive
def test_features_are_measured_on_a_few_images_of_ones_own(place):
  run(OWN_IMAGES.replace("runs/dino", "runs/quickstart"), place)


def test_the_sample_names_the_checkpoint_of_the_command():
  (step,) = re.findall(r"checkpoints/(\d+)", COMPARING)
  assert f'"runs/quickstart/checkpoints/{step}": {{"step": {step}, ' in PAGE


def test_every_config_named_is_there():
  named = re.findall(
    r"--config=(configs/\w+\.py)(?::(\S+))?", "".join(COMMANDS)
  )
  assert len(named) == 8
  for path, arguments in named:
    built = experiment_file.load(str(REPO / path), arguments or None)
    checks.check(resolve.resolve(built))


def test_every_type_and_key_is_in_the_page():
  for kind, section in named_sections.sections("evals").items():
    assert f"| `{kind}` |" in PAGE
    own = section.model_fields.keys() - schema.FeaturesEval.model_fields.keys()
    if kind in ("knn", "linear_probe", "linear_segmentation", "zeroshot"):
      assert all(f"`{key}`" in PAGE or key == "type" for key in own)


def test_the_defaults_are_those_of_the_page():
  knn = schema.KnnEval(type="knn")
  assert knn.neighbors == (10, 20, 100, 200) and knn.temperature == 0.07
  assert "10, 20, 100 and 200 neighbours and a temperature of 0.07." in WORDS
  probe = schema.LinearProbeEval(type="linear_probe")
  assert probe.held_out == 0.1 and "`held_out` = 10 %" in WORDS
  powers = [b / a for a, b in itertools.pairwise(probe.l2_sweep)]
  assert powers == pytest.approx([10] * 5) and "six powers of ten" in WORDS
  assert schema.FewshotEval(type="fewshot").l2 == 1024
  pixels = schema.LinearSegmentationEval(type="linear_segmentation")
  updates = f"{pixels.steps}, {pixels.warmup_steps}"
  assert f"| `steps`, `warmup_steps` | {updates} |" in PAGE
  assert f"| `train_batch_size` | {pixels.train_batch_size} |" in PAGE
  assert (pixels.learning_rate, pixels.weight_decay) == (1e-3, 1e-4)
  assert "| `learning_rate`, `weight_decay` | 10⁻³, 10⁻⁴ |" in PAGE


def test_the_protocols_are_those_of_the_page():
  names = ("dino", "dinov2", "mae")
  entries = [
    schema.LinearProbeEval(type="linear_probe", protocol=name) for name in names
  ]
  found = [probe_protocols.of(entry) for entry in entries]
  for key in ("blocks", "average_patches"):
    cells = " | ".join(f"`{getattr(one, key)}`" for one in found)
    assert f"| `{key}` | {cells} |" in PAGE
  for key in ("epochs", "warmup_epochs", "train_batch_size"):
    cells = " | ".join(str(getattr(one, key)) for one in found)
    assert f"| `{key}` | {cells} |" in PAGE
  dino, dinov2, mae = (one.learning_rates for one in found)
  assert (dino, mae) == ((0.001,), (0.1,)) and "| 0.001 | 13, from" in PAGE
  assert len(dinov2) == 13 and (min(dinov2), max(dinov2)) == (1e-5, 0.1)
  assert len(found[1].settings) == 52 and "52 for DINOv2" in WORDS
