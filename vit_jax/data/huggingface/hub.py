"""Datasets on the Hugging Face hub: files of a revision in the cache.

The cache and its settings are those of huggingface_hub: HF_HOME, HF_TOKEN,
HF_ENDPOINT, HF_HUB_OFFLINE. A repository's README.md may declare configurations
with patterns of files; those of the chosen configuration are fetched.
"""

import dataclasses
import functools
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from vit_jax import hub, truncate
from vit_jax.errors import UserError

_README = "README.md"
_TYPE = "dataset"

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Config:
  """A configuration: files by split, or all files below a directory.

  Attributes:
    name: Name of the configuration.
    data_files: Patterns of the files of each split; if empty, the library finds
      them.
    data_dir: Directory of all its files; None for that of the dataset.
    is_default: True if it is used when no name is given.
  """

  name: str
  data_files: Mapping[str, Sequence[str]]
  data_dir: str | None = None
  is_default: bool = False


@functools.cache  # All readers in a process see the same commit.
def fetched(name: str, revision: str | None, config: str | None) -> str:
  """Returns the directory of a repository's files, downloaded if necessary.

  Without a network, the revision's files in the cache are used if they are
  complete.

  Args:
    name: 'OWNER/NAME'.
    revision: Branch, tag or commit; None for main.
    config: Configuration whose files are wanted; None for the default one.

  Raises:
    UserError: There is no such repository, revision or configuration, the user
      has no access to it, a file cannot be downloaded, or neither network nor
      cache has all files.
  """
  import huggingface_hub

  shown = f"datasets:{name}" + (f"@{revision}" if revision else "")
  shown += f":{config}" if config else ""
  try:
    with hub.refusals(shown, name, revision):
      info = huggingface_hub.HfApi().dataset_info(
        name, revision=revision, timeout=hub.SECONDS, files_metadata=True
      )
  except UserError:
    raise
  except Exception as error:  # Those of its HTTP library are not public.
    return _cached(name, revision, config, shown, hub.reason(error))
  try:
    with hub.refusals(shown, name, revision):
      return _downloaded(info, name, revision, config, shown)
  except UserError:
    raise
  except Exception as error:  # As above, and the disk may be full.
    raise UserError(
      f"{shown} was not fetched whole ({hub.reason(error)}); fix that and run"
      " again, which fetches what is missing."
    ) from None


def _downloaded(
  info: Any, name: str, revision: str | None, config: str | None, shown: str
) -> str:
  import huggingface_hub

  options = {
    "repo_type": _TYPE,
    "revision": revision,  # The cache finds it by this name.
    "etag_timeout": hub.SECONDS,
  }
  files = {f.rfilename: f.size or 0 for f in info.siblings or ()}
  patterns = None
  if _README in files:
    place = huggingface_hub.snapshot_download(
      name, allow_patterns=[_README], **options
    )
    patterns = _wanted(place, config, shown)
  _say_size(name, info.sha, files, patterns, shown)
  return huggingface_hub.snapshot_download(
    name, allow_patterns=patterns, **options
  )


def _cached(
  name: str, revision: str | None, config: str | None, shown: str, reason: str
) -> str:
  """Returns the directory in the cache when the hub is unreachable.

  Raises:
    UserError: There is none, or files of the configuration are missing.
  """
  import huggingface_hub

  options = {
    "repo_type": _TYPE,
    "revision": revision,
    "local_files_only": True,
  }
  try:
    # Listed files that are missing may belong to other configurations.
    place = huggingface_hub.snapshot_download(
      name, allow_patterns=[], **options
    )
  except Exception:  # As in `fetched`.
    raise UserError(
      f"{shown} cannot be fetched ({reason}), and it is not in the cache. Try"
      " again with a network, or give the directory of a copy."
    ) from None
  patterns = _wanted(place, config, shown)
  try:
    # The cache also has the repository's list of files, and compares.
    huggingface_hub.snapshot_download(name, allow_patterns=patterns, **options)
  except Exception:
    raise UserError(
      f"{shown}: the hub cannot be reached ({reason}), and the cache lacks some"
      f" of its files; it was not fetched whole to {place}. Connect and run"
      " again."
    ) from None
  _logger.warning(
    "%s: the hub cannot be reached (%s); what the cache has is used, %s.",
    shown,
    reason,
    place,
  )
  return place


def _wanted(place: str, config: str | None, shown: str) -> list[str] | None:
  """Patterns of the files of a configuration; None for all files."""
  found = configs(place)
  return _patterns(choose(found, config, shown)) if found else None


def configs(directory: str) -> list[Config]:
  """Returns the configurations declared by the README.md of a directory."""
  import huggingface_hub

  path = os.path.join(directory, _README)
  if not os.path.exists(path):
    return []
  card = huggingface_hub.DatasetCard.load(path, ignore_metadata_errors=True)
  declared = card.data.to_dict().get("configs") or []
  return [
    Config(
      entry["config_name"],
      _by_split(entry.get("data_files"), entry.get("data_dir")),
      entry.get("data_dir"),
      bool(entry.get("default")),
    )
    for entry in declared
    if isinstance(entry, dict) and "config_name" in entry
  ]


def choose(found: Sequence[Config], name: str | None, shown: str) -> Config:
  """Returns the configuration with a name, or the default for None.

  Raises:
    UserError: There is none with the name, or there are several and no default.
  """
  names = [config.name for config in found]
  if name in names:
    return found[names.index(name)]
  choices = truncate.first([repr(n) for n in names])
  if name is not None:
    raise UserError(
      f"{shown} has no configuration {name!r}; it has: {choices}."
    )
  if len(found) == 1:
    return found[0]
  for config in found:
    if config.is_default or config.name == "default":
      return config
  raise UserError(
    f"{shown} has several configurations, {choices}; name one, as in"
    f" '{shown}:{names[0]}'."
  )


def _by_split(data_files: Any, data_dir: str | None) -> dict[str, list[str]]:
  """Patterns by split, from any of the forms used in a README.md."""
  if not data_files:
    return {}
  if isinstance(data_files, str):
    data_files = [data_files]
  if isinstance(data_files, Mapping):
    pairs = list(data_files.items())
  elif all(isinstance(entry, str) for entry in data_files):
    pairs = [("train", data_files)]
  else:
    pairs = [(entry["split"], entry["path"]) for entry in data_files]
  start = f"{data_dir}/" if data_dir else ""
  return {
    split: [
      start + path for path in ([paths] if isinstance(paths, str) else paths)
    ]
    for split, paths in pairs
  }


def _patterns(config: Config) -> list[str] | None:
  """Patterns of the files to download; None for all."""
  if not config.data_files:
    return [_README, f"{config.data_dir}/*"] if config.data_dir else None
  found = [p for paths in config.data_files.values() for p in paths]
  return [_README, *found]


def _say_size(
  name: str,
  commit: str | None,
  files: Mapping[str, int],
  patterns: Sequence[str] | None,
  shown: str,
) -> None:
  import huggingface_hub
  from huggingface_hub.utils import filter_repo_objects

  missing = [
    file
    for file in filter_repo_objects(files, allow_patterns=patterns)
    if not isinstance(
      huggingface_hub.try_to_load_from_cache(
        name, file, revision=commit, repo_type=_TYPE
      ),
      str,
    )
  ]
  if missing:
    size = sum(files[file] for file in missing) / 1e6
    _logger.info(
      "%s: %d files of %.4g MB together are downloaded to the cache.",
      shown,
      len(missing),
      size,
    )
