"""Locations of TFDS datasets on disk; nothing is downloaded.

TFDS keeps DATA_DIR/NAME[/CONFIG]/VERSION/dataset_info.json. `tfds.builder`
would run the dataset's own code and might try the network for minutes.
"""

import dataclasses
import os
import re

from etils import epath

from vit_jax import records
from vit_jax.errors import UserError

_NAME = re.compile(
  r"(?P<name>\w+)(/(?P<config>[\w.+-]+))?(:(?P<version>\d+\.\d+\.\d+))?"
)
_VERSION = re.compile(r"\d+\.\d+\.\d+")


@dataclasses.dataclass(frozen=True)
class DatasetName:
  """'name/config:version'; config and version are optional."""

  name: str
  config: str | None = None
  version: str | None = None

  @classmethod
  def parse(cls, text: str) -> "DatasetName":
    """Parses a name accepted by `sources.check`."""
    match = _NAME.fullmatch(text)
    assert match, text
    return cls(**match.groupdict())

  def __str__(self) -> str:
    config = f"/{self.config}" if self.config else ""
    version = f":{self.version}" if self.version else ""
    return f"{self.name}{config}{version}"


def resolve_data_dir(data_dir: str | None) -> epath.Path:
  """Returns `data_dir`, else TFDS_DATA_DIR, else ~/tensorflow_datasets."""
  default = os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
  return epath.Path(data_dir or default).expanduser()


def find(dataset: DatasetName, data_dir: epath.Path) -> epath.Path | None:
  """Returns the directory of a dataset, by default the newest version, or None.

  Raises:
    UserError: No config is named, and there are several but no default.
  """
  directory = data_dir / dataset.name
  if dataset.config:
    directory /= dataset.config
  elif not _versions(directory):
    config = _default_config(dataset, directory)
    if config is None:
      return None
    directory /= config
  versions = _versions(directory)
  version = dataset.version or (versions[-1] if versions else None)
  return directory / version if version in versions else None


def require(dataset: DatasetName, data_dir: epath.Path) -> epath.Path:
  """Like `find`; raises UserError with instructions if it is missing."""
  directory = find(dataset, data_dir)
  if directory is None:
    there = ", ".join(_names(data_dir)) or "no dataset"
    raise UserError(
      f"Dataset {str(dataset)!r} is not in {data_dir} (which has {there})."
      f" Prepare it with: python -m vit_jax.prepare {dataset}"
      f" --data_dir={data_dir}"
    )
  return directory


def _names(data_dir: epath.Path) -> list[str]:
  """Lists the datasets in `data_dir`, with configs and versions."""
  return [
    str(DatasetName(name, config or None, version))
    for name in _folders(data_dir)
    for config in ("", *_folders(data_dir / name))
    for version in _versions(data_dir / name / config)
  ]


def _folders(directory: epath.Path) -> list[str]:
  try:
    return sorted(p.name for p in directory.iterdir() if p.is_dir())
  except (FileNotFoundError, NotADirectoryError):
    return []
  except OSError as error:
    raise UserError(
      f"{directory} cannot be listed ({error.strerror or error}); name another"
      " dataset or set config.data_dir."
    ) from None


def _versions(directory: epath.Path) -> list[str]:
  """Lists the versions prepared in `directory`, oldest first."""
  versions = [
    name
    for name in _folders(directory)
    if _VERSION.fullmatch(name)
    and (directory / name / "dataset_info.json").exists()
    and (directory / name / "features.json").exists()
  ]
  return sorted(versions, key=lambda v: tuple(map(int, v.split("."))))


def _default_config(dataset: DatasetName, directory: epath.Path) -> str | None:
  metadata = records.read_json(directory / ".config" / "metadata.json")
  default = metadata.get("default_config_name")
  if default and _versions(directory / default):
    return default
  configs = [
    name for name in _folders(directory) if _versions(directory / name)
  ]
  if len(configs) > 1:
    choices = ", ".join(f"{dataset.name}/{config}" for config in configs)
    raise UserError(
      f"Dataset {str(dataset)!r} has several configurations; write one of"
      f" {choices}."
    )
  return configs[0] if configs else None
