"""Whether a run may go on from a checkpoint that was made before."""

import json
from collections.abc import Mapping
from typing import Any

from vit_jax.config import resolve, schema
from vit_jax.errors import UserError

# These may differ between the run that saved and the one that goes on.
_FREE = ("log_every_steps", "checkpoint.", "evals", "mesh.", "allow_change")
_FREE += ("sweep.", "train.max_bad_examples", "faults.watchdog_seconds")


def metadata(
  config: schema.Config, *, fingerprint: str, versions: Mapping[str, str]
) -> dict[str, Any]:
  """What is saved beside the state; `first_example` is added at each save."""
  return {
    "config": json.loads(resolve.dump(config)),
    "dataset_fingerprint": fingerprint,
    "versions": dict(versions),
  }


def differences(
  saved: Mapping[str, Any], config: schema.Config, fingerprint: str
) -> list[str]:
  """Keys that differ and are neither free nor in `config.allow_change`.

  Args:
    saved: the checkpoint's metadata.
    config: that of the run that goes on.
    fingerprint: of its training data.

  Returns:
    One line each: "key: was 1, is 2".
  """
  old = resolve.flatten(saved["config"])
  new = resolve.flatten(json.loads(resolve.dump(config)))
  old["dataset_fingerprint"] = saved["dataset_fingerprint"]
  new["dataset_fingerprint"] = fingerprint
  allowed = {
    key.strip().removeprefix("config.")
    for key in config.allow_change.split(",")
  }
  absent = object()
  return [
    f"{key}: was {_shown(old.get(key))}, is {_shown(new.get(key))}"
    for key in sorted(old | new)
    if old.get(key, absent) != new.get(key, absent)
    and not key.startswith(_FREE)
    and key not in allowed
  ]


def check_same(
  saved: Mapping[str, Any],
  config: schema.Config,
  *,
  fingerprint: str,
  workdir: Any,
) -> None:
  """Raises UserError naming every key that keeps a run from going on."""
  different = differences(saved, config, fingerprint)
  if different:
    keys = ",".join(line.partition(":")[0] for line in different)
    raise UserError(
      f"{workdir} holds checkpoints of another run:\n"
      + "\n".join(f"  {line}" for line in different)
      + "\nUse another --workdir, or go on regardless with"
      f" --config.allow_change={keys}."
    )


def _shown(value: Any) -> str:
  return "unset" if value is None else json.dumps(value)
