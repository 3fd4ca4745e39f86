"""Download and preparation of TFDS datasets by TFDS, for one command."""

import contextlib
import logging
import re
from collections.abc import Iterator
from typing import Any

import tensorflow_datasets as tfds
from array_record.python import array_record_module
from etils import epath
from tensorflow_datasets.core import file_adapters

from vit_jax.data import checksums
from vit_jax.data.tf_import import tf
from vit_jax.data.tfds import array_record_files, dataset_directory, source
from vit_jax.errors import UserError
from vit_jax.suggestions import did_you_mean

_logger = logging.getLogger(__name__)

# Names of files in instructions for manual downloads.
_ARCHIVE = re.compile(r"\b[\w-]+\.(?:tar(?:\.\w+)?|tgz|zip)\b")
_ARRAY_RECORD = file_adapters.FileFormat.ARRAY_RECORD


class _Uncompressed(file_adapters.ArrayRecordFileAdapter):
  """Writes with `array_record_files.WRITER_OPTIONS`."""

  @classmethod
  def write_examples(cls, path: Any, iterator: Any) -> None:
    writer = array_record_module.ArrayRecordWriter(
      str(path), array_record_files.WRITER_OPTIONS
    )
    for _, record in iterator:
      writer.write(record)
    writer.close()


def prepare(dataset: str, data_dir: str | None) -> str:
  """Prepares a TFDS dataset for random access.

  A missing dataset is downloaded and written as ArrayRecord, with checksums
  next to it; existing TFRecord files are indexed.

  Returns:
    A line that describes the dataset.

  Raises:
    UserError: TFDS does not know the dataset or cannot prepare it.
  """
  name = dataset_directory.DatasetName.parse(dataset)
  home = dataset_directory.resolve_data_dir(data_dir)
  is_new = dataset_directory.find(name, home) is None
  if is_new:
    _download(name, home)
  directory = dataset_directory.require(name, home)
  info = source.read_info(directory)
  if is_new:
    paths = [p for split in info.splits.values() for p in split.filepaths]
    checksums.write(
      directory, {path.name: checksums.of_new_file(path) for path in paths}
    )
  for split in info.splits:
    source.open_shards(info, split)
  counts = ", ".join(
    f"{split} {split_info.num_examples}"
    for split, split_info in info.splits.items()
  )
  form = info.file_format.value
  return f"{info.full_name} is ready in {directory} as {form}: {counts}."


def _download(name: dataset_directory.DatasetName, home: epath.Path) -> None:
  known = tfds.list_builders(with_community_datasets=False)
  if name.name not in known:
    near = did_you_mean(name.name, known)
    hint = f" Did you mean {near!r}?" if near else ""
    raise UserError(
      f"TFDS knows no dataset {name.name!r}.{hint} A folder of images needs"
      " no preparation: use dataset 'folder'."
    )
  try:
    builder = tfds.builder(
      str(name), data_dir=home, file_format=_ARRAY_RECORD.value
    )
  except (AssertionError, ValueError) as error:
    reason = str(error).partition('}": ')[2] or str(error)
    raise UserError(f"Dataset {str(name)!r}: {reason}") from None
  _raise_if_manual(builder, home)
  assert tf.version  # Imports TensorFlow, before TFDS does so noisily.
  try:
    with _uncompressed():
      builder.download_and_prepare()
  except Exception as error:  # From network, disk or the dataset's code.
    raise UserError(
      f"Dataset {str(name)!r} could not be prepared in {home}"
      f" ({type(error).__name__}: {error}). Where there is no network, prepare"
      f" it on another machine and copy {home / name.name}."
    ) from error


def _raise_if_manual(builder: Any, home: epath.Path) -> None:
  """Raises UserError if all files to be downloaded manually are missing.

  If only some are missing, a warning names them: TFDS prepares the splits that
  it can, and instructions may name alternatives, or files to be unpacked.
  """
  instructions = builder.MANUAL_DOWNLOAD_INSTRUCTIONS
  if not instructions:
    return
  manual = home / "downloads" / "manual"
  there = {p.name for p in manual.iterdir()} if manual.exists() else set()
  named = list(dict.fromkeys(_ARCHIVE.findall(instructions)))
  missing = [file for file in named if file not in there]
  if not there:
    files = " and ".join(named) or "Files"
    lines = "\n".join(map(str.strip, instructions.strip().splitlines()))
    raise UserError(
      f"{files} of {builder.info.full_name} must be fetched by hand and put"
      f" into {manual}. TFDS says:\n{lines}"
    )
  for file in missing:
    _logger.warning(
      "%s is not in %s; a split that needs it will be left out.", file, manual
    )


@contextlib.contextmanager
def _uncompressed() -> Iterator[None]:
  """Makes TFDS write ArrayRecord files without compression."""
  adapters = file_adapters.ADAPTER_FOR_FORMAT
  before = adapters[_ARRAY_RECORD]
  adapters[_ARRAY_RECORD] = _Uncompressed
  try:
    yield
  finally:
    adapters[_ARRAY_RECORD] = before
