"""The experiment to launch: its train command and its commit.

The flags are those of vit_jax.train, checked before the launch: a misspelt key
should not be discovered only after waiting for a pod.
"""

import dataclasses
import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence

from absl import flags

from launch.plan import Command
from vit_jax import checks, command_line, registry
from vit_jax.config import experiment_file
from vit_jax.errors import UserError

REPO = pathlib.Path(__file__).resolve().parents[1]
_CONFIG_WORD = re.compile(r"--?(no)?config($|[.=])")
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


@dataclasses.dataclass(frozen=True)
class Experiment:
  """Arguments to run vit_jax.train with.

  Attributes:
    config: Path of the experiment file, as given on the command line.
    arguments: Part of `--config` from the colon on; "" if there is none.
    overrides: Words of the form --config.KEY=VALUE.
    workdir: Directory of the run.
    trackers: Packages of the trackers of `config.log.to`.
  """

  config: str
  arguments: str
  overrides: tuple[str, ...]
  workdir: str
  trackers: tuple[str, ...] = ()

  def command(self, python: str, config: str) -> list[str]:
    """The words of the train command, with `config` for the experiment file."""
    return [
      *(python, "-m", "vit_jax.train"),
      f"--config={config}{self.arguments}",
      *self.overrides,
      f"--workdir={self.workdir}",
    ]


def define_flags() -> None:
  command_line.define_config()
  flags.DEFINE_string(
    "workdir", None, "Directory of the run, on the machine where it runs."
  )
  flags.DEFINE_bool(
    "dry_run", False, "Print every file and command, and do nothing."
  )
  show_in_help("workdir", "dry_run")


def define_name() -> None:
  flags.DEFINE_string(
    "name", None, "Name of the job: lower-case letters, digits and '-'."
  )
  show_in_help("name")


def show_in_help(*names: str) -> None:
  """--help shows the flags of the command's own module."""
  for name in names:
    flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS[name])


def name() -> str:
  """The value of --name.

  Raises:
    UserError: The name is missing or not valid for the services that use it.
  """
  value = flags.FLAGS.name
  if not value:
    raise UserError("The job has no name: give --name=NAME.")
  if not _NAME.fullmatch(value):
    raise UserError(
      f"--name={value} must have at most 40 lower-case letters, digits and"
      " '-', begin with a letter and not end with '-'."
    )
  return value


def from_flags(
  words: Sequence[str] | None = None, *, same_environment: bool
) -> Experiment:
  """The experiment of the flags, after all checks that need no data.

  Args:
    words: Command line without the program; by default that of this process.
    same_environment: The run has the packages that are installed here.

  Raises:
    UserError: The config has an error, or there is no workdir.
  """
  resolved = command_line.resolved_config()
  checks.check(resolved)
  if same_environment:
    checks.check_trackers(resolved)
  workdir = flags.FLAGS.workdir
  if not workdir:
    raise UserError("No directory for the run was named: give --workdir=DIR.")
  config, *overrides = _config_words(sys.argv[1:] if words is None else words)
  path, colon, arguments = config.removeprefix("--config=").partition(":")
  return Experiment(
    path,
    colon + arguments,
    tuple(overrides),
    workdir,
    tuple(registry.TRACKERS.get(name).package for name in resolved.log.to),
  )


def _config_words(words: Sequence[str]) -> list[str]:
  """--config=FILE and then its overrides, each one word."""
  config, overrides = [], []
  rest = iter(words)
  for word in rest:
    if not _CONFIG_WORD.match(word):
      continue
    word = f"--{word.lstrip('-')}"
    if word == "--config":
      word = f"--config={next(rest, '')}"
    if "=" not in word:
      raise UserError(f"{word} must be written {word}=VALUE to be taken along.")
    (config if word.startswith("--config=") else overrides).append(word)
  if len(config) != 1:
    raise UserError("Give one --config=FILE.")
  return config + overrides


def shared_config(experiment: Experiment) -> str:
  """The absolute path of the experiment file, where all see the same disk."""
  return str(pathlib.Path(experiment_file.find(experiment.config)).resolve())


def commit(*, allow_changes: bool) -> str:
  """The commit that is checked out, which is what will run elsewhere.

  Args:
    allow_changes: Only warns if files differ from the commit.

  Raises:
    UserError: This is no clone, or files differ from the commit.
  """
  revision = _git("rev-parse", "--verify", "HEAD").strip()
  changed = _git("status", "--porcelain", "--untracked-files=no").splitlines()
  if changed:
    problem = (
      f"What is launched is commit {revision[:12]}, and these files differ from"
      " it:\n"
      + "\n".join(f"  {line}" for line in changed[:10])
      + "\nCommit them first."
    )
    if not allow_changes:
      raise UserError(problem)
    print(problem, file=sys.stderr)
  return revision


def archive(revision: str, path: str) -> Command:
  """The command that writes a commit's files into a .tar.gz file."""
  output = f"--output={pathlib.Path(path).absolute()}"
  return Command(
    ["git", "-C", str(REPO), "archive", "--format=tar.gz", output, revision]
  )


def config_inside(experiment: Experiment, revision: str | None) -> str:
  """The experiment file's path inside the clone.

  Args:
    experiment: Experiment whose file is looked up.
    revision: Commit that must contain the file; None accepts any that was
      launched before.

  Raises:
    UserError: The file will not be there where the run is.
  """
  path = pathlib.Path(experiment_file.find(experiment.config)).resolve()
  if not path.is_relative_to(REPO):
    raise UserError(
      f"{path} is outside of {REPO} and will not be where the run is. Put it"
      " into configs/ and commit it."
    )
  inside = path.relative_to(REPO).as_posix()
  if revision and not _git("ls-tree", "--name-only", revision, "--", inside):
    raise UserError(
      f"{inside} is not part of commit {revision[:12]} and will not be where"
      " the run is. Commit it."
    )
  return inside


def _git(*arguments: str) -> str:
  try:
    return subprocess.run(
      ["git", "-C", REPO, *arguments],
      check=True,
      capture_output=True,
      text=True,
    ).stdout
  except FileNotFoundError:
    raise UserError("git is needed here and was not found.") from None
  except subprocess.CalledProcessError as error:
    raise UserError(
      f"{REPO} must be a clone of the repository; git says:"
      f" {error.stderr.strip()}"
    ) from None
