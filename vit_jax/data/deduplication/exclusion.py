"""A source without the examples listed in a file.

The file is {"source": FINGERPRINT, "examples": [NUMBER, ...]} in JSON, as
written by `vit_jax.deduplicate`. Numbers refer to the records of one split, so
the fingerprint must be that of the source.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterable

import numpy as np
import pydantic
from etils import epath

from vit_jax import buckets, records
from vit_jax.data.sources import Source, Wrapped
from vit_jax.errors import UserError


class _List(pydantic.BaseModel, strict=True):
  source: str
  examples: list[int]


def write(
  path: epath.PathLike, source: Source, examples: Iterable[int]
) -> None:
  """Writes the numbers of the examples of a source to exclude."""
  content = {"source": source.fingerprint, "examples": sorted(examples)}
  records.write_text(path, json.dumps(content) + "\n")


def without(source: Source, path: str, *, key: str) -> "Remaining":
  """Returns a source without the examples in a file, set by a config key.

  Raises:
    UserError: The file cannot be read, belongs to other data, or excludes
      everything.
  """
  start = f"{key} = {path!r}"
  buckets.check(path)
  try:
    listed = _List.model_validate_json(
      epath.Path(path).expanduser().read_text()
    )
  except OSError as error:
    raise UserError(
      f"{start} cannot be read ({error.strerror or error}); name a file that"
      " python -m vit_jax.deduplicate has written."
    ) from None
  except ValueError:
    raise UserError(
      f'{start} is not a list of examples, {{"source": TEXT, "examples":'
      " [NUMBER, ...]}, as python -m vit_jax.deduplicate writes it."
    ) from None
  if listed.source != source.fingerprint:
    raise UserError(
      f"{start} was made of other data ({listed.source}) than are trained on"
      f" ({source.fingerprint}); run python -m vit_jax.deduplicate on this"
      " dataset and split, with the same --image_key, --label_key and"
      " --text_key, and with --regression if it has numbers to predict."
    )
  for example in listed.examples:
    if not 0 <= example < source.num_examples:
      raise UserError(
        f"{start} lists example {example}; there are 0 to"
        f" {source.num_examples - 1}."
      )
  left_out = np.unique(np.asarray(listed.examples, np.int64))
  if left_out.size == source.num_examples:
    raise UserError(f"{start} lists all examples, so that none is left.")
  return Remaining(source, left_out)


@dataclasses.dataclass(frozen=True)
class Remaining(Wrapped):
  """A source with examples excluded; see `sources.Source`."""

  left_out: np.ndarray  # int64 [m], numbers, ascending, each once.

  @property
  def num_examples(self) -> int:
    return self.source.num_examples - len(self.left_out)

  @property
  def fingerprint(self) -> str:
    content = self.left_out.astype("<i8").tobytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    return f"{self.source.fingerprint}:without:{len(self.left_out)}:{digest}"

  def read_or_locate(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    return self.source.read_or_locate(self.originals(ids))

  def originals(self, ids: np.ndarray) -> np.ndarray:
    """Maps numbers of remaining examples to numbers in the whole source."""
    # Number of remaining examples before each excluded one.
    before = self.left_out - np.arange(len(self.left_out))
    return ids + np.searchsorted(before, ids, side="right")
