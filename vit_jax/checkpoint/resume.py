"""Differences that prevent a run from resuming from a checkpoint."""

import json
from collections.abc import Mapping
from typing import Any

from vit_jax.config import (
  defaults,
  key_suggestions,
  named_sections,
  resolve,
  schema,
)
from vit_jax.errors import UserError

# These may differ between the run that saved and the one that resumes. Data may
# move: `dataset_fingerprint` shows whether they are the same.
_FREE = (
  "log_every_steps",
  "early_stopping",
  "checkpoint.",
  "evals",
  "mesh.",
  "allow_change",
  "sweep.",
  "train.max_bad_examples",
  "faults.watchdog_seconds",
  "profile.",
  "log.",
  "paper_row.",
  "data_dir",
  "objective.cache_frozen",
)
_FREE_UNTIL_THE_END = ("data_dir", "early_stopping")
# Keys of an evaluator that do not affect its metrics.
_OF_NO_METRIC = ("every_steps", "batch_size", "num_shown")
# Sections whose keys depend on their name.
_NAMED = ("model", "objective")

# Key of the metadata that lists what the starts of a run have changed.
CHANGED = "changed_keys"

# Groups whose entries have names of the user's choice.
_ANY_NAME = ("evals.", "train.views.")

# Setting one of them on the command line unsets the others.
_LENGTH = frozenset(("total_steps", "total_epochs", "max_epochs"))


def metadata(
  config: schema.Config,
  *,
  fingerprint: str,
  versions: Mapping[str, str],
  constants: Mapping[str, str] | None = None,
) -> dict[str, Any]:
  """Returns metadata to save; each save adds `first_example`.

  Args:
    config: The experiment.
    fingerprint: Identifier of the contents of the training data.
    versions: Package -> version.
    constants: Path of frozen parameters, such as a teacher's -> digest.
  """
  return {
    "config": json.loads(resolve.dump(config)),
    "dataset_fingerprint": fingerprint,
    "versions": dict(versions),
    "constants": dict(constants or {}),
  }


def differences(
  saved: Mapping[str, Any],
  current: Mapping[str, Any],
  allow_change: str = "",
  *,
  evaluator: str | None = None,
) -> list[str]:
  """Finds keys that differ and are neither free nor allowed.

  A key that is too new for the saved config counts as its default.

  Args:
    saved: Metadata of a checkpoint.
    current: Metadata of the run that resumes.
    allow_change: Comma-separated keys, or sections such as 'versions'.
    evaluator: Entry of `config.evals` that measured the saved run, which has
      ended. Keys that affect its metrics are then neither free nor can they be
      allowed, because the run would not measure again. The location of the data
      and early stopping are not free either.

  Returns:
    One line each: "key: was 1, is 2".
  """
  config = current["config"]
  usual = _present(resolve.flatten(_defaults_of(config, evaluator)))
  old, new = usual | _flat(saved), _flat(current)
  absent = object()
  return [
    f"{key}: was {_shown(old.get(key))}, is {_shown(new.get(key))}"
    for key in sorted(old | new)
    if old.get(key, absent) != new.get(key, absent)
    and not _is_free(key, evaluator)
    and (_is_measured(key, evaluator) or not is_allowed(key, allow_change))
  ]


def changed(
  saved: Mapping[str, Any], current: Mapping[str, Any], *, is_over: bool = False
) -> list[str]:
  """Returns the keys that starts of a run have changed.

  They are those of `allow_change` and of evaluators that it already had.

  Args:
    saved: Metadata of the checkpoint that the run resumes from, with the keys
      of earlier starts under `CHANGED`.
    current: Metadata of this start.
    is_over: True if it has nothing left to train, so `allow_change` changes
      nothing.
  """
  lines = changed_evaluators(saved, current)
  if not is_over:
    lines += differences(saved, current)
  now = [line.partition(":")[0] for line in lines]
  return sorted({*saved.get(CHANGED, []), *now})


def changed_evaluators(
  saved: Mapping[str, Any], current: Mapping[str, Any]
) -> list[str]:
  """Finds changed keys of evaluators that affect their metrics.

  Keys that only one of the two has are left out, such as those of an evaluator
  that is new.

  Returns:
    One line each: "key: was 1, is 2".
  """
  old, new = _flat(saved), _flat(current)
  return [
    f"{key}: was {_shown(old[key])}, is {_shown(new[key])}"
    for key in sorted(old.keys() & new.keys())
    if key.startswith("evals.")
    and old[key] != new[key]
    and _is_measured(key, key.split(".")[1])
  ]


def as_trained(
  saved: Mapping[str, Any], config: schema.Config
) -> schema.Config:
  """Returns the config that describes a run without a step left to train.

  Args:
    saved: Metadata of its last checkpoint.
    config: Config of a start that has nothing left to train.

  Returns:
    The saved config with the keys of `config` that are free to differ;
    `config` itself if the saved one does not fit this version's schema.
  """
  current = json.loads(resolve.dump(config))
  try:
    return resolve.load(json.dumps(_with_free_keys(saved["config"], current)))
  except UserError:
    return config


def _with_free_keys(
  old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = ""
) -> dict[str, Any]:
  """Returns `old` with the free keys of `new`."""
  merged = {}
  for name in {**old, **new}:
    key = prefix + name
    both = old.get(name), new.get(name)
    source = new if _is_free(key, None) else old
    if all(isinstance(value, Mapping) for value in both):
      merged[name] = _with_free_keys(*both, f"{key}.")
    elif name in source:
      merged[name] = source[name]
  return merged


def _is_free(key: str, evaluator: str | None) -> bool:
  if evaluator is not None and key.startswith(_FREE_UNTIL_THE_END):
    return False
  return key.startswith(_FREE) and not _is_measured(key, evaluator)


def _is_measured(key: str, evaluator: str | None) -> bool:
  """Returns True for a key of the evaluator that affects its metrics."""
  section, name, rest = (*key.split(".", 2), "", "")[:3]
  is_its = section == "evals" and name == evaluator
  return is_its and rest not in _OF_NO_METRIC


def is_allowed(key: str, allow_change: str) -> bool:
  """Returns True if `config.allow_change` names a key or its section.

  To name one key of a run's length is to name all of them.
  """
  names = allowed_keys(allow_change)
  if key in _LENGTH and not _LENGTH.isdisjoint(names):
    return True
  return any(key == name or key.startswith(name + ".") for name in names)


def allowed_keys(allow_change: str) -> list[str]:
  """Returns the keys in `config.allow_change`, without 'config.'."""
  return [
    key.strip().removeprefix("config.") for key in allow_change.split(",")
  ]


def check_allowed(
  current: Mapping[str, Any], saved: Mapping[str, Any] | None
) -> None:
  """Checks that `config.allow_change` names keys that exist.

  Keys and groups of the schema and of either metadata are known, and so is what
  the saved config names: a run resumes with the command that it was started
  with.

  Args:
    current: Metadata of the run that starts.
    saved: Metadata of the checkpoint that it resumes from, if there is one.

  Raises:
    UserError: A name is unknown; the message names the nearest key.
  """
  flat = resolve.flatten(defaults.default_config().to_dict()) | _flat(current)
  accepted = {""}
  if saved is not None:
    flat |= _flat(saved)
    accepted.update(allowed_keys(saved["config"].get("allow_change", "")))
  keys = ["constants", *flat]
  parts = (key.split(".") for key in keys)
  groups = {".".join(part[:n]) for part in parts for n in range(1, len(part))}
  known = [f"config.{name}" for name in (*keys, *sorted(groups))]
  for name in allowed_keys(current["config"]["allow_change"]):
    if (
      name in accepted
      or name.startswith(_ANY_NAME)
      or f"config.{name}" in known
    ):
      continue
    near = key_suggestions.nearest(f"config.{name}", known)
    hint = (
      f"did you mean {near.removeprefix('config.')!r}?"
      if near
      else "name keys such as 'schedule.base_lr', groups of keys such as"
      " 'schedule', or 'versions'."
    )
    raise UserError(
      f"config.allow_change: {name!r} is not a key of the config; {hint}"
    )


def _defaults_of(
  config: Mapping[str, Any], evaluator: str | None
) -> dict[str, Any]:
  """Returns config defaults with the same family, objective and evaluator."""
  named = {group: _names(config[group]) for group in _NAMED}
  if evaluator is not None:
    entry = config["evals"][evaluator]
    named["evals"] = {evaluator: {"type": entry["type"]}}
  named["extensions"] = config.get("extensions", [])
  return json.loads(resolve.dump(resolve.load(json.dumps(named))))


def _names(section: Mapping[str, Any]) -> dict[str, Any]:
  """Returns the names of a section and its subsections, like image towers."""
  within = {
    key: _names(value)
    for key, value in section.items()
    if isinstance(value, Mapping) and "name" in value
  }
  return {"name": section["name"], **within}


def _flat(metadata: Mapping[str, Any]) -> dict[str, Any]:
  """Flattens to config keys, dataset_fingerprint, versions.*, constants.*."""
  config = dict(metadata["config"])
  for group in _NAMED:  # Older runs have the keys of all names.
    if group in config:
      config[group] = named_sections.own_keys(group, config[group])
  flat = resolve.flatten(
    {
      **config,
      "dataset_fingerprint": metadata["dataset_fingerprint"],
      "versions": metadata["versions"],
      "constants": metadata.get("constants", {}),
    }
  )
  return _present(flat)


def _present(flat: Mapping[str, Any]) -> dict[str, Any]:
  """Drops groups without entries, such as `train.views` by default."""
  return {key: value for key, value in flat.items() if value != {}}


def check_same(
  saved: Mapping[str, Any],
  current: Mapping[str, Any],
  *,
  allow_change: str,
  workdir: Any,
  misfits: str = "",
) -> None:
  """Raises UserError naming every key that prevents a run from resuming.

  The error does not suggest allowing a key if the saved state does not fit the
  run.

  Args:
    saved: Metadata of a checkpoint.
    current: Metadata of the run that resumes.
    allow_change: `config.allow_change`.
    workdir: Directory of the checkpoint.
    misfits: Clause about the arrays of the state that differ; "" if none do.
  """
  different = differences(saved, current, allow_change)
  keys = [line.partition(":")[0] for line in different]
  # The suggested value must keep the keys that are already allowed.
  every = differences(saved, current)
  allowed = [
    name
    for name in allowed_keys(allow_change)
    if any(is_allowed(line.partition(":")[0], name) for line in every)
  ] + keys
  advice = (
    "Use another --workdir, or resume regardless with"
    f" --config.allow_change={','.join(allowed)}."
  )
  if misfits:
    advice = (
      f"The run in {workdir} cannot resume with this config: {misfits}. Begin"
      f" another with a new --workdir and --config.init_from={workdir}; what"
      " cannot be taken over from it is named in --config.init_without."
    )
  if different:
    other_data = ""
    if "dataset_fingerprint" in keys:
      old, new = (of["config"].get("data_dir") for of in (saved, current))
      other_data = (
        f"\nconfig.data_dir was {_shown(old)}, is {_shown(new)}: the data there"
        " are not those of the run; name the directory that holds them."
        if old != new
        else "\nThe data are no longer those of the run; files may have come or"
        " gone. A run that resumes regardless takes the rest of this epoch from"
        " the new order: some examples come twice, others not at all."
      )
    raise UserError(
      f"{workdir} holds checkpoints of another run:\n"
      + "\n".join(f"  {line}" for line in different)
      + other_data
      + f"\n{advice}"
    )
  if misfits:
    pairs = (line.split(": ", 1) for line in every)
    changes = ", ".join(f"{key} ({change})" for key, change in pairs)
    named = f"Changed by config.allow_change: {changes}. " if changes else ""
    raise UserError(named + advice)


def _shown(value: Any) -> str:
  return "unset" if value is None else json.dumps(value)
