"""Flags, config files and error messages of all commands."""

import ast
import atexit
import contextlib
import functools
import io
import logging
import operator
import os
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import ml_collections
from absl import app, flags
from absl import logging as absl_logging
from ml_collections import config_flags

from vit_jax.config import (
  experiment_file,
  from_json,
  key_suggestions,
  resolve,
  schema,
  without_effect,
)
from vit_jax.errors import UserError
from vit_jax.processes import termination

_logger = logging.getLogger(__name__)

EXIT_BAD_INPUT = 1
EXIT_INTERRUPTED = 130
# Variant key -> its sections, and the keys it stands for there.
_VARIANTS = {
  "model.variant": ("model", "model.image"),
  "model.text.variant": ("model.text",),
}
_SIZES = (
  "width",
  "depth",
  "num_heads",
  "mlp_dim",
  "depths",
  "widths",
  "blocks",
  "stem_blocks",
)
# For characters of names and help texts that the terminal's encoding lacks.
_SPELT_OUT = "backslashreplace"
_HELP = "Run with --help to see the flags."
# Start of the help of --checkpoint, and the error where the flag is missing.
CHECKPOINT_HELP = (
  "Workdir, one of its checkpoints/STEP, .npz, .safetensors, .pth or Hugging"
  " Face directory"
)
NO_CHECKPOINT = "No checkpoint was named: give --checkpoint=PATH."


def run(
  main: Callable[[Sequence[str]], int | None],
  config_flag: str | None = None,
  *,
  outlives_output: bool = False,
) -> None:
  """Runs a command: `main(argv)` under absl; exits with what it returns.

  A `UserError` or a bad flag becomes one message on stderr and its exit code.
  Ctrl-C ends it with 130 and SIGTERM with 143.

  Args:
    main: Main function of the command.
    config_flag: Name of the flag for a config file, if there is one.
    outlives_output: Continue if what is printed cannot be written, because the
      reader of a pipe has ended or a disk is full: the results are in files.
  """

  def main_and_leave(argv: Sequence[str]) -> None:
    _speak_plainly()
    try:
      code = main(argv) or 0
      # The reader of the output, such as `head`, may have closed the pipe.
      with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    except UserError as error:
      _complain(str(error))
      code = error.exit_code
    except KeyboardInterrupt:
      code = EXIT_INTERRUPTED
    except BrokenPipeError:
      code = EXIT_BAD_INPUT
    except Exception:
      traceback.print_exc()
      code = EXIT_BAD_INPUT
    # All output has been written. Threads of TensorFlow and jax have been seen
    # to hang for minutes during interpreter shutdown, after their exit
    # handlers.
    atexit._run_exitfuncs()
    with contextlib.suppress(BrokenPipeError, UserError):
      sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

  shows_help = _asks_for_help(sys.argv)
  sys.stdout = _guarded(sys.stdout, drops=outlives_output and not shows_help)
  if outlives_output:
    sys.stderr = _guarded(sys.stderr, drops=True)
  termination.catch()
  parser = functools.partial(_parse_flags, config_flag=config_flag)
  app.run(main_and_leave, flags_parser=parser)


class _Guarded(io.FileIO):
  """Standard output or error, with a message if it cannot be written."""

  def __init__(self, number: int, *, drops: bool):
    super().__init__(number, "w", closefd=False)
    self._drops = drops

  def write(self, data: Any) -> int | None:
    try:
      return super().write(data)
    except OSError as error:
      if self._drops:
        return len(data)
      self._drops = True  # It is an error once, not again at the exit.
      if isinstance(error, BrokenPipeError):
        raise
      raise UserError(
        f"The output cannot be written ({error.strerror})."
      ) from None


def _guarded(stream: TextIO | None, *, drops: bool) -> TextIO:
  if stream is None:  # It was closed before the command began.
    return open(os.devnull, "w", errors=_SPELT_OUT)  # noqa: SIM115
  return io.TextIOWrapper(
    io.BufferedWriter(_Guarded(stream.fileno(), drops=drops)),
    encoding=stream.encoding,
    errors=_SPELT_OUT,
    # PYTHONUNBUFFERED sets only the second.
    line_buffering=stream.line_buffering or stream.write_through,
  )


def define_config(name: str = "config") -> flags.FlagHolder:
  """Defines `--config=FILE[:ARGUMENTS]` with overrides `--config.key=value`."""
  holder = config_flags.DEFINE_config_file(
    name,
    help_string=(
      "Experiment file, with arguments after a colon, or a run's config.json;"
      f" override keys by --{name}.KEY=VALUE."
    ),
  )
  # --help shows the flags of the command's own module.
  flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS[name])
  return holder


def resolved_config(name: str = "config") -> schema.Config:
  """Returns the config of `--config` with its overrides.

  If the architecture comes from a checkpoint, overridden keys of `model` are
  added to `keep_model_keys`.

  Raises:
    UserError: Any error from `resolve.resolve`, or an override has no effect.
  """
  flag = flags.FLAGS[name]
  return _resolved(flag.value, config_flags.get_override_values(flag))


def resolved_config_of(argument: str, name: str = "config") -> schema.Config:
  """Returns the config of `--config` with another argument after its colon.

  Args:
    argument: Argument such as 'task=dtd', not given on the command line.
    name: Name of the flag.

  Raises:
    UserError: The experiment file rejects the argument, or any error from
      `resolved_config`.
  """
  flag = flags.FLAGS[name]
  file = config_flags.get_config_filename(flag)
  path, _, given = file.partition(":")
  if path == from_json.__file__:
    raise UserError(
      f"--{name}={given} is the config of one run, which takes no argument such"
      f" as {argument}; give an experiment file that does."
    )
  key = argument.partition("=")[0]
  if key in (item.partition("=")[0].strip() for item in given.split(",")):
    raise UserError(
      f"--{name}={file} names one {key}, where there are several; leave it out."
    )
  overrides = config_flags.get_override_values(flag)
  try:
    config = experiment_file.load(
      path, ",".join(filter(None, (given, argument)))
    )
    config.update_from_flattened_dict(overrides)
  except UserError as error:
    raise UserError(f"--{name}={file} with {argument}: {error}") from None
  return _resolved(config, overrides)


def _resolved(
  value: ml_collections.ConfigDict, overrides: Collection[str]
) -> schema.Config:
  """Checks a config and records which keys of `model` were overridden.

  A length given on the command line takes precedence over everything the file
  says about it, and so does a variant given without sizes.

  Raises:
    UserError: Any error from `resolve.resolve`, or an override has no effect.
  """
  in_epochs = "total_epochs" in overrides and value.total_epochs is not None
  if in_epochs and "total_steps" not in overrides:
    value.total_steps = None
  given = {"total_steps", "total_epochs"} & set(overrides)
  capped = value.get("max_epochs") is not None
  if given and capped and "max_epochs" not in overrides:
    value.max_epochs = None
  for variant, sections in _VARIANTS.items():
    if variant in overrides:
      flat = resolve.flatten(value.to_dict())
      sizes = {f"{section}.{key}" for section in sections for key in _SIZES}
      sizes = {key for key in sizes if flat.get(key) is not None}
      if not sizes & set(overrides):
        value.update_from_flattened_dict(dict.fromkeys(sizes))
  config = resolve.resolve(value)
  vain = [text for key, text in without_effect.find(config) if key in overrides]
  if vain:
    raise UserError("\n".join(vain))
  if config.total_steps is not None and config.total_epochs is not None:
    _say_once(
      f"config.total_steps = {config.total_steps} is the length;"
      f" config.total_epochs = {config.total_epochs:g} has no effect."
    )
  if not config.model_from_init:
    return config
  given = [
    key.removeprefix("model.") for key in overrides if key.startswith("model.")
  ]
  kept = tuple(dict.fromkeys((*config.keep_model_keys, *given)))
  return config.model_copy(update={"keep_model_keys": kept})


@functools.cache
def _say_once(sentence: str) -> None:
  _logger.info(sentence)


def _speak_plainly() -> None:
  """Shows all messages of this package, but only warnings of libraries."""
  if not flags.FLAGS["verbosity"].present:
    absl_logging.set_verbosity(absl_logging.WARNING)
  absl_logging.get_absl_handler().setFormatter(
    logging.Formatter("%(levelname)s: %(message)s")
  )
  logging.getLogger("vit_jax").setLevel(logging.INFO)


def check_writable(flag: str, path: str | None) -> None:
  """Raises UserError early for a file that could not be written later.

  Args:
    flag: Name of the flag that names it.
    path: File that will be written, possibly in a bucket; None if none will be.
  """
  if not path or "://" in path:
    return
  directory = Path(path).parent
  if not directory.is_dir():
    raise UserError(
      f"--{flag}={path} cannot be written: there is no directory {directory};"
      " make it first."
    )
  if Path(path).is_dir():
    raise UserError(f"--{flag}={path} is a directory; name a file to write.")
  if not os.access(directory, os.W_OK):
    raise UserError(
      f"--{flag}={path} cannot be written: you have no permission to write to"
      f" {directory}; name a file in another directory."
    )


def writing(
  write: Callable[[str, object], None], path: str, value: object
) -> None:
  """Calls `write(path, value)`; raises UserError if that fails."""
  try:
    write(path, value)
  except OSError as error:
    raise UserError(
      f"{path} cannot be written: {error.strerror or error}."
    ) from None


def no_arguments(argv: Sequence[str]) -> None:
  """Raises UserError if arguments other than flags are left."""
  if len(argv) > 1:
    raise UserError(
      f'Unexpected argument "{argv[1]}"; flags are written --NAME=VALUE.'
    )


def _complain(message: str) -> int:
  for line in message.splitlines():
    print(f"error: {line}", file=sys.stderr)
  return EXIT_BAD_INPUT


def _parse_flags(argv: list[str], config_flag: str | None) -> list[str]:
  argv = list(map(_with_home, argv))
  known: list[str] = []
  try:
    if config_flag and not _asks_for_help(argv):
      argv, known = _with_config_found(argv, config_flag)
    try:
      return flags.FLAGS(argv)
    except SystemExit:
      # absl exits with 1 after showing the output of --help.
      sys.stdout.flush()
      sys.exit(0)
  except flags.UnrecognizedFlagError as error:
    hint = key_suggestions.of_flag(f"{config_flag}.{error.flagname}", known)
    sys.exit(_complain(" ".join(filter(None, (_ended(error), hint, _HELP)))))
  except flags.Error as error:
    sys.exit(_complain(f"{_ended(error)} {_HELP}"))
  except UserError as error:
    sys.exit(_complain(str(error)))
  except BrokenPipeError:
    sys.exit(EXIT_BAD_INPUT)
  except KeyboardInterrupt:
    sys.exit(EXIT_INTERRUPTED)


def _ended(error: flags.Error) -> str:
  """Returns an error's message as a complete sentence."""
  message = str(error).rstrip()
  return message if message.endswith((".", "?", "!")) else f"{message}."


def _with_home(argument: str) -> str:
  """Expands the ~ of --NAME=~/PATH, which shells leave as it is.

  Keys of a config keep it: it is recorded, and read on other machines too.
  """
  name, _, value = argument.partition("=")
  if name.startswith("-") and "." not in name and value.startswith("~"):
    return f"{name}={os.path.expanduser(value)}"
  return argument


def _asks_for_help(argv: Sequence[str]) -> bool:
  return any(arg.lstrip("-").startswith("help") for arg in argv[1:])


def _with_config_found(
  argv: list[str], name: str
) -> tuple[list[str], list[str]]:
  """Checks the config file and the overridden keys before absl parses them.

  Returns:
    The arguments with the path of the file found, and the config's keys.
  """
  prefix = f"--{name}="
  found, files = [], []
  words = iter(argv)
  for word in words:
    if word in (f"--{name}", f"-{name}"):
      word = prefix + next(words, "")
    elif word.startswith(f"-{name}="):
      word = "-" + word
    if word.startswith(prefix):
      files.append((len(found), word.removeprefix(prefix)))
    found.append(word)
  if not files or not files[0][1]:
    raise UserError(
      f"No experiment was named: give --{name}=FILE, such as"
      f" --{name}=configs/quickstart.py."
    )
  if len(files) > 1:
    raise UserError(
      f"--{name} is given {len(files)} times:"
      f" {', '.join(file for _, file in files)}. Give it once."
    )
  ((index, file),) = files
  path, colon, arguments = experiment_file.split(file)
  config = experiment_file.load(path, arguments if colon else None)
  known = list(resolve.flatten(config.to_dict(), f"{name}."))
  _check_overrides(found, name, config, known)
  found[index] = f"{prefix}{path}{colon}{arguments}"
  return found, known


def _check_overrides(
  argv: Sequence[str],
  name: str,
  config: ml_collections.ConfigDict,
  known: list[str],
) -> None:
  """Raises UserError for overrides of keys that `config` does not have."""
  problems = []
  wholes: dict[str, tuple[str, Any]] = {}  # Groups given as a whole so far.
  for arg in argv[1:]:
    key, has_value, value = arg.lstrip("-").partition("=")
    key = key.removeprefix("no") if key.startswith(f"no{name}.") else key
    if not arg.startswith("-") or not key.startswith(f"{name}."):
      continue
    if "[" in key:
      whole = key.partition("[")[0]
      problems.append(
        f"{key}: one item cannot be set; give {whole} as a whole, as in"
        f""" --{whole}='("a", "b")'."""
      )
      continue
    try:
      entry = functools.reduce(operator.getitem, key.split(".")[1:], config)
    except (KeyError, TypeError):  # The key continues below a value.
      given = value if has_value else None
      problems.append(key_suggestions.unknown(key, given, known))
      continue
    problems += _not_left(key, wholes)
    if has_value and isinstance(entry, ml_collections.ConfigDict):
      problems += _not_a_group(entry, key, value)
      wholes[key] = value, _literal(value)
  if problems:
    raise UserError("\n".join(problems))


def _not_left(key: str, wholes: dict[str, tuple[str, Any]]) -> Iterator[str]:
  """Yields a sentence if a group given as a whole before has no such key."""
  for group, (given, value) in wholes.items():
    if not key.startswith(f"{group}."):
      continue
    for part in key.removeprefix(f"{group}.").split("."):
      if not isinstance(value, dict) or part not in value:
        yield (
          f"{key}: --{group}={given}, given before it, leaves no {part!r};"
          " add it there, or leave one of the two out."
        )
        break
      value = value[part]


def _literal(value: str) -> Any:
  """Returns the value of a Python literal; None if it is not one."""
  try:
    return ast.literal_eval(value)
  except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
    return None


def _not_a_group(
  group: ml_collections.ConfigDict, key: str, value: str
) -> Iterator[str]:
  """Yields a sentence if the value given for a group of keys is not a dict."""
  if isinstance(_literal(value), dict):
    return
  advice = f"set one of them, as --{key}.KEY=VALUE"
  if isinstance(group.get("name"), str):
    advice = f"set one of them, as --{key}.name={value}"
  elif all(isinstance(x, ml_collections.ConfigDict) for x in group.values()):
    advice += f", or --{key}={{}} for none"
  yield f"--{key}={value}: {key} is a group of keys; {advice}."
