"""Locations of a Hugging Face dataset's records, and the library's tables.

'NAME[@REVISION][:CONFIG]' is on the hub, with files in the cache of
huggingface_hub; 'DIR[:CONFIG]' is a directory of `save_to_disk`, of Arrow or
Parquet files or of anything else that `datasets` reads. Arrow files are mapped
directly. Parquet files are read in place if the order allows; otherwise the
library copies them to Arrow format in its cache, as it does with all other
files.
"""

import dataclasses
import json
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from etils import epath

from vit_jax.data import order
from vit_jax.data.huggingface import arrow_files, dataset_names, hub
from vit_jax.data.huggingface.arrow_tables import Mapped, Table
from vit_jax.data.huggingface.row_groups import RowGroups
from vit_jax.errors import UserError

_SPLIT = re.compile(r"\w[\w.-]*")
_DEFAULT_SPLIT = "train"
# Files that identify directories of `save_to_disk`.
_SAVED = ("dataset_dict.json", "state.json")

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Dataset:
  """A dataset on disk.

  Attributes:
    directory: Directory of the dataset.
    features: Columns of the records, as in `datasets.Features`.
    splits: From the name of each split to a function that opens it, given the
      columns.
    roots: Directories that may contain images named by records.
  """

  directory: str
  features: Mapping[str, Any]
  splits: Mapping[str, Callable[[Sequence[str]], Table]]
  roots: Sequence[str] = ()


def open_dataset(
  arguments: str, *, data_dir: str | None, shuffle_block: int = 1
) -> Dataset:
  """Finds a dataset's files, downloading or copying them if necessary.

  Args:
    arguments: Text after 'datasets:'; a directory takes precedence over a name,
      and a relative one is resolved against `data_dir`, if given.
    shuffle_block: See `order.example_ids`.

  Raises:
    UserError: The dataset does not exist, cannot be read, or cannot be written
      to the cache.
  """
  name = dataset_names.parse(arguments)
  shown = f"datasets:{arguments}"
  directory, config = _directory(arguments, data_dir)
  if directory is None:
    file = _absolute(arguments, data_dir)
    if os.path.isfile(file):
      raise UserError(
        f"{shown} is a file; name its directory, {os.path.dirname(file)}."
      )
    if name is None:
      raise UserError(
        f"{shown}: there is no directory {file}, and no dataset of the hub has"
        " such a name; write OWNER/NAME, OWNER/NAME@REVISION, OWNER/NAME:CONFIG"
        " or a directory."
      )
    directory = hub.fetched(name.name, name.revision, name.config)
    config = name.config
  with arrow_files.errors(shown, directory):
    if any(os.path.exists(os.path.join(directory, file)) for file in _SAVED):
      return _saved(directory, shown)
    return _files(directory, config, shown, shuffle_block)


def _absolute(path: str, data_dir: str | None) -> str:
  path = os.path.expanduser(path)
  if os.path.isabs(path) or data_dir is None:
    return path
  return os.path.join(os.fspath(epath.Path(data_dir).expanduser()), path)


def _directory(
  arguments: str, data_dir: str | None
) -> tuple[str | None, str | None]:
  """The named directory and a configuration; (None, None) if there is none."""
  path, _, config = arguments.rpartition(":")
  for name, of_it in ((arguments, None), (path, config)):
    if name and os.path.isdir(found := _absolute(name, data_dir)):
      return os.path.abspath(found), of_it
  return None, None


def _saved(directory: str, shown: str) -> Dataset:
  """Opens a directory of `save_to_disk`."""
  import datasets

  for path in arrow_files.of_directory(directory):
    arrow_files.mapped(path)
  places = {_DEFAULT_SPLIT: directory}
  if os.path.exists(listing := os.path.join(directory, _SAVED[0])):
    splits = _json(listing)["splits"]
    places = {name: os.path.join(directory, name) for name in splits}
  # The library writes no file for a split without examples, and fails to read
  # it.
  found = {
    name: datasets.load_from_disk(place, keep_in_memory=False)
    for name, place in places.items()
    if _json(os.path.join(place, _SAVED[1]))["_data_files"]
  }
  if not found:
    raise UserError(f"{shown} has no examples.")
  if places == {_DEFAULT_SPLIT: directory}:
    name = str(found[_DEFAULT_SPLIT].split or "")
    if _SPLIT.fullmatch(name):
      found = places = {name: found[_DEFAULT_SPLIT]}
  features = next(iter(found.values())).features
  tables = {name: split.data.table for name, split in found.items()}
  empty = features.arrow_schema.empty_table()
  tables = dict.fromkeys(places, empty) | tables
  return Dataset(
    directory,
    features,
    {n: lambda _, table=t: Mapped(table) for n, t in tables.items()},
    _roots(directory),
  )


def _json(path: str) -> Any:
  with open(path, encoding="utf-8") as file:
    return json.load(file)


def _roots(directory: str) -> list[str]:
  """The dataset's directory, and the caches that may contain its files."""
  import datasets
  import huggingface_hub

  of_hub = huggingface_hub.constants.HF_HUB_CACHE
  return [directory, *map(os.fspath, (of_hub, datasets.config.HF_CACHE_HOME))]


def _files(
  directory: str, config: str | None, shown: str, shuffle_block: int
) -> Dataset:
  """Opens a directory of data files with the splits found by the library."""
  import datasets
  import pyarrow as pa

  builder = _builder(directory, config, shown)
  files = {
    str(split): list(paths)
    for split, paths in (builder.config.data_files or {}).items()
  }
  suffixes = {
    os.path.splitext(path)[1] for paths in files.values() for path in paths
  }
  if suffixes == {".arrow"}:
    tables = {
      split: pa.concat_tables(map(arrow_files.mapped, paths))
      for split, paths in files.items()
    }
    schema = next(iter(tables.values())).schema
    return Dataset(
      directory,
      builder.info.features or datasets.Features.from_arrow_schema(schema),
      {s: lambda _, table=t: Mapped(table) for s, t in tables.items()},
      _roots(directory),
    )
  if suffixes == {".parquet"}:
    found = _in_place(
      directory, files, builder.info.features, shown, shuffle_block
    )
    if found:
      return found
  return _copied(builder, files, shown, directory)


def _builder(directory: str, config: str | None, shown: str) -> Any:
  import datasets
  from datasets.info import DatasetInfosDict

  configs = hub.configs(directory)
  if not configs:
    if config is not None:
      raise UserError(f"{shown} has no configurations; leave ':{config}' out.")
    return datasets.load_dataset_builder(directory)
  chosen = hub.choose(configs, config, shown)
  infos = DatasetInfosDict.from_directory(directory)
  info = infos.get(chosen.name)
  patterns = chosen.data_files
  if not patterns and chosen.data_dir:
    # Otherwise the library looks for the files of all configurations.
    place = os.path.join(directory, chosen.data_dir)
    patterns = {
      str(split): [f"{chosen.data_dir}/{pattern}" for pattern in found]
      for split, found in datasets.data_files.get_data_patterns(place).items()
    }
  return datasets.load_dataset_builder(
    directory,
    chosen.name,
    data_files=patterns or None,
    features=info.features if info else None,
  )


def _in_place(
  directory: str,
  files: Mapping[str, Sequence[str]],
  features: Mapping[str, Any] | None,
  shown: str,
  shuffle_block: int,
) -> Dataset | None:
  """Opens Parquet files in place; None if they do not suit the order."""
  import datasets
  import pyarrow.parquet as pq

  largest = 0
  for paths in files.values():
    for path in paths:
      metadata = pq.read_metadata(path)
      for number in range(metadata.num_row_groups):
        largest = max(largest, metadata.row_group(number).num_rows)
  if shuffle_block < largest:
    _logger.info(
      "%s: with config.train.shuffle_block=%d or more its row groups of %d"
      " records would be read in place.",
      shown,
      largest,
      largest,
    )
    return None
  # Blocks can start anywhere in a row group, and the next window is read ahead.
  groups = -(-shuffle_block // max(largest, 1)) + 1
  keep = 2 * order.WINDOW_BLOCKS * groups * largest
  first = next(iter(files.values()))[0]
  schema = pq.read_schema(first)
  return Dataset(
    directory,
    features or datasets.Features.from_arrow_schema(schema),
    {
      split: lambda columns, paths=paths: RowGroups(paths, first, columns, keep)
      for split, paths in files.items()
    },
  )


def _copied(
  builder: Any, files: Mapping[str, Sequence[str]], shown: str, directory: str
) -> Dataset:
  """Opens the library's copy in Arrow format, creating it if necessary."""
  if not os.path.isdir(builder.cache_dir):
    size = _arrow_bytes(files)
    _logger.info(
      "%s: a copy in Arrow's form of about %s is made in %s.",
      shown,
      _shown_size(float(size)),
      builder.cache_dir,
    )
  builder.download_and_prepare()
  found = builder.as_dataset()
  for path in arrow_files.of_directory(builder.cache_dir):
    arrow_files.mapped(path)
  return Dataset(
    directory,
    next(iter(found.values())).features,
    {
      str(name): lambda _, table=split.data.table: Mapped(table)
      for name, split in found.items()
    },
    _roots(directory),
  )


def _arrow_bytes(files: Mapping[str, Sequence[str]]) -> int:
  """Approximate bytes of files in Arrow format; images are incompressible."""
  import pyarrow.parquet as pq

  total = 0
  for paths in files.values():
    for path in paths:
      if path.endswith(".parquet"):
        metadata = pq.read_metadata(path)
        groups = map(metadata.row_group, range(metadata.num_row_groups))
        total += sum(group.total_byte_size for group in groups)
      else:
        total += os.path.getsize(path)
  return total


def _shown_size(size: float) -> str:
  for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
    if size >= scale:
      return f"{size / scale:.3g} {unit}"
  return f"{size / 1e3:.3g} kB"
