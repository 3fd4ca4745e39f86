"""Files in a workdir that describe its checkpoints: config and classes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pydantic
from etils import epath

from vit_jax import records
from vit_jax.config import resolve, schema
from vit_jax.errors import UserError

if TYPE_CHECKING:  # Importing its libraries takes a second.
  from vit_jax.tokenization.tokenizer import Tokenizer

CONFIG = "config.json"
CLASSES = "classes.json"
TOKENIZER = "tokenizer"

_NAMES = pydantic.TypeAdapter(tuple[pydantic.StrictStr, ...] | None)


def write_config(workdir: epath.PathLike, config: schema.Config) -> None:
  """Writes config.json: the resolved config."""
  text = resolve.dump(config) + "\n"
  records.write_text(epath.Path(workdir) / CONFIG, text)


def read_config(workdir: epath.PathLike) -> schema.Config:
  """Reads the config of the run in a workdir.

  Raises:
    UserError: The file is missing or damaged, or has a different version's
      schema.
  """
  path = epath.Path(workdir) / CONFIG
  try:
    text = path.read_text()
  except (OSError, UnicodeDecodeError) as error:
    raise UserError(
      f"{path}, which describes the checkpoints, cannot be read"
      f" ({getattr(error, 'strerror', None) or error}); restore that file."
    ) from None
  try:
    return resolve.load(text)
  except UserError as error:
    raise UserError(f"{path} cannot be used: {error}") from None


def write_class_names(
  workdir: epath.PathLike, names: Sequence[str] | None
) -> None:
  """Writes classes.json: a list in the order of the labels, or null."""
  text = _NAMES.dump_json(None if names is None else tuple(names)).decode()
  records.write_text(epath.Path(workdir) / CLASSES, text + "\n")


def write_tokenizer(workdir: epath.PathLike, tokenizer: "Tokenizer") -> None:
  """Writes the files of a tokenizer, which `vit_jax.load_tokenizer` reads."""
  directory = epath.Path(workdir) / TOKENIZER
  directory.mkdir(parents=True, exist_ok=True)
  for name, content in tokenizer.files.items():
    with records.replacing(directory / name) as partial:
      partial.write_bytes(content)


def read_class_names(workdir: epath.PathLike) -> tuple[str, ...] | None:
  """Reads the names of classes; None if they are unknown.

  Raises:
    UserError: The file contains something else.
  """
  path = epath.Path(workdir) / CLASSES
  if not path.exists():
    return None
  try:
    return _NAMES.validate_json(path.read_bytes())
  except pydantic.ValidationError:
    raise UserError(
      f"{path} does not hold a list of names; repair it, or remove it to see"
      " the numbers of classes."
    ) from None
