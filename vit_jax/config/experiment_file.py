"""Experiment files: `--config=FILE[:ARGUMENTS]`."""

import importlib.util
import inspect
import os
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import ml_collections
from ml_collections import config_dict

from vit_jax.config import from_json
from vit_jax.errors import UserError
from vit_jax.suggestions import did_you_mean


def split(value: str) -> tuple[str, str, str]:
  """Splits `--config` into (experiment file, ":" if arguments follow, these).

  Raises:
    UserError: There is no such file.
  """
  if value.endswith(".json"):
    return from_json.__file__, ":", value
  path, colon, arguments = value.partition(":")
  if path.endswith(".json"):
    raise UserError(
      f"The config file {path} is the config of one run, which takes no"
      f" arguments; leave out '{colon}{arguments}'."
    )
  return find(path), colon, arguments


def find(path: str) -> str:
  """`path` itself, or the installed config of that name.

  Raises:
    UserError: Neither exists.
  """
  if os.path.isfile(path):
    return path
  installed = _installed_configs()
  if os.path.isdir(path):
    raise UserError(
      f"The config file {path} is a directory; name a file in it, such as the"
      f" {os.path.join(path, 'config.json')} of a run."
    )
  if installed:
    relative = Path(path)
    if relative.parts[:1] == ("configs",):
      relative = Path(*relative.parts[1:])
    candidate = installed / relative
    if not relative.is_absolute() and candidate.is_file():
      return str(candidate)
    names = sorted(
      "configs/" + file.name
      for file in installed.glob("*.py")
      if not file.name.startswith("_")
    )
    near = did_you_mean(path, names, cutoff=0.7)
    hint = f" Did you mean {near}?" if near else ""
    raise UserError(
      f"The config file {path} does not exist, neither here nor among the"
      f" installed ones.{hint} There are {', '.join(names)}."
    )
  raise UserError(f"The config file {path} does not exist.")


def _installed_configs() -> Path | None:
  spec = importlib.util.find_spec("vit_jax.configs")
  if spec and spec.submodule_search_locations:
    return Path(next(iter(spec.submodule_search_locations)))
  beside = Path(__file__).resolve().parents[2] / "configs"
  return beside if beside.is_dir() else None


def load(path: str, arguments: str | None) -> ml_collections.ConfigDict:
  """Runs `get_config` of an experiment file.

  Raises:
    UserError: The file fails, in which case the line is named, or its keys
      cannot be overridden.
  """
  spec = importlib.util.spec_from_file_location("experiment", path)
  if spec is None or spec.loader is None:
    raise UserError(
      f"The config file {path} must end in .py, or in .json if it is the config"
      " of a run."
    )
  file = os.path.abspath(path)  # The experiment file may change directories.
  module = importlib.util.module_from_spec(spec)
  try:
    spec.loader.exec_module(module)
    get_config = _function_of(module, path, arguments)
    config = get_config() if arguments is None else get_config(arguments)
  except UserError:
    raise
  except (Exception, SystemExit) as error:
    line = _line_of(file, error)
    place = f"{path}, line {line}" if line else path
    reason = f"{type(error).__name__}: {error}".removesuffix(": ")
    raise UserError(f"The config file fails ({place}): {reason}") from None
  if not isinstance(config, ml_collections.ConfigDict):
    raise UserError(
      f"get_config() in {path} must return a ConfigDict; it returns"
      f" {type(config).__name__}."
    )
  if isinstance(config, ml_collections.FrozenConfigDict):
    raise UserError(
      f"get_config() in {path} returns a FrozenConfigDict, whose keys cannot be"
      " overridden; return a ConfigDict."
    )
  if required := list(_required(config)):
    raise UserError(
      f"{', '.join(required)} in {path}: required_placeholder is read before"
      " the command line can give a value; use placeholder, or a default."
    )
  return config


def _line_of(path: str, error: BaseException) -> int | None:
  """The line of a config file that an error comes from, if it is one of its.

  Args:
    path: Absolute path of the file.
    error: The error, with its traceback.
  """

  def is_it(file: str | None) -> bool:
    return file is not None and os.path.abspath(file) == path

  if isinstance(error, SyntaxError) and is_it(error.filename):
    return error.lineno
  frames = traceback.extract_tb(error.__traceback__)
  lines = [frame.lineno for frame in frames if is_it(frame.filename)]
  return lines[-1] if lines else None


def _required(
  config: ml_collections.ConfigDict, section: str = "config"
) -> Iterator[str]:
  """The keys that are required placeholders without a value."""
  for key, value in config.items(preserve_field_references=True):
    name = f"{section}.{key}"
    if isinstance(value, ml_collections.ConfigDict):
      yield from _required(value, name)
    elif isinstance(value, config_dict.FieldReference):
      try:
        value.get()
      except config_dict.RequiredValueError:
        yield name


def _function_of(
  module: types.ModuleType, path: str, arguments: str | None
) -> Callable[..., object]:
  get_config = getattr(module, "get_config", None)
  if not callable(get_config):
    raise UserError(
      f"The config file {path} defines no function get_config, which returns"
      " the config; write one, as in configs/quickstart.py."
    )
  if arguments is not None:
    try:
      inspect.signature(get_config).bind(arguments)
    except TypeError:
      raise UserError(
        f"get_config in {path} takes no argument, and {arguments!r} is given"
        " after the colon; leave that out, or write get_config(args=None)."
      ) from None
  return get_config
