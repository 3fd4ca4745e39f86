"""What the documents say is there, and their commands run."""

import itertools
import os
import pathlib
import re
import shlex
import subprocess
import sys

import jax
import numpy as np
import pytest
from PIL import Image

import vit_jax
from tests import clip_checkpoint
from vit_jax.config import named_sections, resolve, schema
from vit_jax.models import build

REPO = pathlib.Path(__file__).parents[1]
DOCUMENTS = {
  str(path.relative_to(REPO)): path.read_text(encoding="utf-8")
  for path in sorted({*REPO.glob("*.md"), *REPO.glob("docs/**/*.md")})
}
README, SETTINGS, GUIDE, TUTORIAL = (
  DOCUMENTS[name]
  for name in (
    "README.md",
    "docs/configs.md",
    "docs/commands.md",
    "docs/tutorial.md",
  )
)
# The pages whose commands are run here, in this order.
PAGES = "\n".join([README, SETTINGS, GUIDE, TUTORIAL])


def blocks(page: str, language: str) -> list[str]:
  return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


LINES = [line for block in blocks(PAGES, "bash") for line in block.splitlines()]
# What several pages say is run once.
COMMANDS = list(
  dict.fromkeys(line for line in LINES if line.startswith("python -m vit_jax."))
)
EXPLANATIONS = DOCUMENTS["docs/exactness.md"] + DOCUMENTS["docs/data_order.md"]
PYTHON = blocks(README, "python") + blocks(EXPLANATIONS, "python")
(SERVING,) = blocks(TUTORIAL, "python")

# They want the network, or the compiler of TPUs and half an hour.
ELSEWHERE = [
  c for c in COMMANDS if "prepare cifar10" in c or "vit_jax.compile" in c
]

# What makes a command of the README take seconds; the rest of it stays.
SMALL_FOLDER_RUN = (
  " --config.total_steps=2 --config.schedule.warmup_steps=1"
  " --config.train.batch_size=8 --config.model.depth=1"
)
# A benchmark that measures for a moment; its module is run as by -m.
SHORT_BENCHMARK = """
import runpy
from vit_jax.benchmarking import input_benchmark
input_benchmark._SECONDS = 0.1
runpy.run_module("vit_jax.benchmark", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> pathlib.Path:
  """A folder to run the commands in: photographs and published networks."""
  place = tmp_path_factory.mktemp("readme")
  rng = np.random.default_rng(0)
  for split, name in itertools.product(("train", "test"), ("cat", "dog")):
    folder = place / "photos" / split / name
    folder.mkdir(parents=True)
    for number in range(8):
      pixels = rng.integers(0, 256, (48, 64, 3), np.uint8)
      Image.fromarray(pixels).save(folder / f"{number}.jpg")
  save_published(str(place / "B_16.npz"))
  clip_checkpoint.save(place / "clip-vit-base-patch32")
  return place


def save_published(path: str) -> None:
  """A network that is smaller than the published one of that name."""
  sizes = {"width": 32, "depth": 1, "num_heads": 2, "mlp_dim": 64}
  model = build.create(
    named_sections.section("model", variant="B/16", image_size=32, **sizes),
    num_classes=5,
  )
  images = np.zeros((1, 32, 32, 3), np.uint8)
  vit_jax.save(path, model, model.init(jax.random.key(0), images)["params"])


def quickly(command: str) -> str:
  """The command on generated data or for a few steps."""
  command = re.sub(r"(quickstart|benchmark)\.py(?!:)", r"\1.py:smoke", command)
  if "finetune_folder.py" in command:
    command += SMALL_FOLDER_RUN
  return command


def run(command: str, place: pathlib.Path) -> subprocess.CompletedProcess:
  python, *words = shlex.split(command)
  assert python == "python"
  if "vit_jax.benchmark" in words:
    words = ["-c", SHORT_BENCHMARK, *words[2:]]
  return run_python(words, place)


def run_python(
  words: list[str], place: pathlib.Path
) -> subprocess.CompletedProcess:
  return subprocess.run(
    [sys.executable, *words],
    cwd=place,
    env={**os.environ, "PYTHONPATH": str(REPO)},
    capture_output=True,
    text=True,
    timeout=900,
  )


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_file_named_is_there(name):
  page = DOCUMENTS[name]
  folders = "vit_jax|configs|tests|launch|benchmarks|docs"
  paths = re.findall(rf"\b((?:{folders})/[\w/]*\w\.(?:py|md))\b", page)
  within_package = re.findall(r"`([a-z]\w*/[\w/]*\w\.py)\b", page)
  for path in {*paths, *within_package}:
    if "<" not in path and not is_example(path):
      assert (REPO / path).exists() or (REPO / "vit_jax" / path).exists(), path
  folder = (REPO / name).parent
  for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", page):
    assert (folder / link).exists(), link


def is_example(path: str) -> bool:
  """Says if CONTRIBUTING's recipes have the reader write the file."""
  return "rotation" in path


def test_the_readme_is_read_in_five_minutes():
  assert len(README.split()) <= 900


def test_the_index_lists_every_page():
  listed = set(re.findall(r"\]\(([\w/]+\.md)\)", DOCUMENTS["docs/index.md"]))
  pages = {name.removeprefix("docs/") for name in DOCUMENTS if "docs/" in name}
  assert listed == pages - {"index.md"}


def test_every_make_target_named_is_there():
  targets = set(re.findall(r"\bmake ([a-z]+)`?\b", "\n".join(LINES)))
  assert targets
  for target in targets:
    subprocess.run(
      ["make", "--dry-run", target], cwd=REPO, check=True, capture_output=True
    )


def test_every_setting_named_exists():
  known = set(resolve.flatten(schema.Config().model_dump()))
  table = re.search(r"\n\| setting \|(.*?)\n\n", SETTINGS, re.DOTALL).group(1)
  first_column = [row.split("|")[1] for row in table.splitlines()[2:]]
  named = {
    name for cell in first_column for name in re.findall(r"`([\w.]+)`", cell)
  }
  named |= set(re.findall(r"--config\.([\w.]+)", PAGES))
  assert named <= known


def test_every_op_and_optimizer_named_exists():
  from vit_jax.data import spec
  from vit_jax.optim import transforms

  text = re.search(r"\| `train.preprocess` \| `([^`]+)`", SETTINGS).group(1)
  names = text.replace("\\|", "|").split("|")
  assert set(names) <= set(spec.OPS)
  cell = re.search(r"\| `optimizer.name` \| (.*) \|", SETTINGS).group(1)
  assert set(re.findall(r"`(\w+)`", cell)) == set(transforms.OPTIMIZERS)


def test_every_shipped_config_is_listed():
  shipped = {path.name for path in REPO.glob("configs/[a-z]*.py")}
  assert shipped == set(re.findall(r"\n\| `configs/(\w+\.py)`", SETTINGS))


@pytest.fixture(scope="module")
def outcomes(place) -> dict[str, subprocess.CompletedProcess]:
  """Every command of the pages, run in their order in one folder."""
  return {
    command: run(quickly(command), place)
    for command in COMMANDS
    if command not in ELSEWHERE
  }


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in ELSEWHERE])
def test_the_command_runs(outcomes, command):
  outcome = outcomes[command]
  assert outcome.returncode == 0, outcome.stderr[-3000:]


@pytest.mark.parametrize("code", PYTHON)
def test_the_python_code_runs(place, code):
  outcome = run_python(["-c", code], place)
  assert outcome.returncode == 0, outcome.stderr[-3000:]


@pytest.mark.slow
def test_the_tutorial_ends_with_an_answer(outcomes, place):
  assert outcomes
  outcome = run_python(["-c", SERVING], place)
  assert outcome.stdout.strip() in ("cat", "dog"), outcome.stderr[-3000:]


@pytest.mark.slow
def test_what_was_said_of_published_weights_is_so(outcomes, place):
  named = [c for c in COMMANDS if "predict" in c and "runs/finetuned" in c]
  lines = outcomes[named[0]].stdout.splitlines()
  assert {line.split()[-1] for line in lines if "%" in line} == {"cat", "dog"}
  assert (place / "photos_hf" / "config.json").exists()
  assert (place / "photos.stablehlo").exists()


@pytest.mark.slow
def test_a_workdir_holds_what_the_readme_says(outcomes, place):
  assert outcomes
  table = re.search(r"\n\| file \| holds \|(.*?)\n\n", README, re.DOTALL)
  names = re.findall(r"\n\| `([^`]+)` \|", table.group(1))
  assert len(names) > 5
  for name in names:
    pattern = re.sub(r"<\w+>", "*", name)
    assert list((place / "runs" / "quickstart").glob(pattern)), name


def test_the_flags_of_commands_that_are_not_run_exist(place):
  for command in ELSEWHERE:
    module = command.split()[2]
    known = run(f"python -m {module} --help", place).stdout
    for flag in re.findall(r"--(\w+)", command):
      assert re.search(rf"--(\[no\])?{flag}\b", known), flag
