"""MLflow, on a server or with a local database."""

import json
import logging
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vit_jax.config import resolve
from vit_jax.rundir.trackers.contract import (
  DEFAULT_PROJECT,
  Line,
  RunInfo,
  TrackerKind,
)
from vit_jax.rundir.trackers.memory import Memory

# Limits of MLflow's server.
_PARAMS_AT_ONCE = 100
_METRICS_AT_ONCE = 1000
_MAX_VALUE_LENGTH = 6000
_FOREIGN = re.compile(r"[^\w. /-]")
_STATUS = {
  "finished": "FINISHED",
  "preempted": "KILLED",
  "interrupted": "KILLED",
}
_logger = logging.getLogger(__name__)


def _start(info: RunInfo, memory: Memory) -> "_Mlflow":
  import mlflow

  logging.getLogger("mlflow").setLevel(logging.WARNING)
  client = mlflow.MlflowClient()
  run = _known_run(client, memory.get("id"))
  if run is None:
    project = info.project or os.environ.get(
      "MLFLOW_EXPERIMENT_NAME", DEFAULT_PROJECT
    )
    experiment = mlflow.set_experiment(project)
    run = client.create_run(experiment.experiment_id, run_name=info.name)
    memory.set(id=run.info.run_id)
    _logger.info(
      "mlflow calls the run %s, in experiment %s", info.name, project
    )
  else:
    client.update_run(run.info.run_id, status="RUNNING")
  return _Mlflow(client, run, info)


def _known_run(client: Any, run_id: str | None) -> Any:
  """Returns the run of an earlier start; None if the server has none."""
  from mlflow.exceptions import MlflowException

  if run_id is None:
    return None
  try:
    run = client.get_run(run_id)
  except MlflowException as error:
    if error.error_code != "RESOURCE_DOES_NOT_EXIST":
      raise
    return None
  return run if run.info.lifecycle_stage == "active" else None


class _Mlflow:
  """An MLflow run; its tag `step` is the last step it has."""

  def __init__(self, client: Any, run: Any, info: RunInfo):
    self._client = client
    self._id = run.info.run_id
    self.last_step = int(run.data.tags.get("step", -1))
    self._newest = self.last_step
    params = {
      _name(key): _text(value)
      for key, value in resolve.flatten(info.config).items()
    }
    known = run.data.params
    # Parameters are immutable: anything that changes in a later start is a tag.
    changed = {
      name: value
      for name, value in params.items()
      if known.get(name, value) != value
    }
    tags = {
      _name(key): _text(value)
      for key, value in resolve.flatten(info.facts).items()
    }
    if info.group is not None:
      tags["group"] = info.group
    self._describe(
      {name: value for name, value in params.items() if name not in known},
      {**tags, **changed, "status": "running"},
    )

  def _describe(
    self, params: Mapping[str, str], tags: Mapping[str, str]
  ) -> None:
    from mlflow.entities import Param, RunTag

    for part in _parts(params.items(), _PARAMS_AT_ONCE):
      self._client.log_batch(self._id, params=[Param(*item) for item in part])
    for part in _parts(tags.items(), _PARAMS_AT_ONCE):
      self._client.log_batch(self._id, tags=[RunTag(*item) for item in part])

  def write(self, lines: Sequence[Line]) -> None:
    from mlflow.entities import Metric, RunTag

    now = int(time.time() * 1000)
    metrics = [
      Metric(_name(name), value, now, step)
      for step, values in lines
      for name, value in values.items()
    ]
    for part in _parts(metrics, _METRICS_AT_ONCE):
      # Rejected lines may come after newer ones.
      self._newest = max(self._newest, part[-1].step)
      last = RunTag("step", str(self._newest))
      self._client.log_batch(self._id, metrics=part, tags=[last])

  def finish(self, status: str) -> None:
    self._client.set_tag(self._id, "status", status)
    self._client.set_terminated(self._id, _STATUS.get(status, "FAILED"))


def _parts(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
  items = list(items)
  for at in range(0, len(items), size):
    yield items[at : at + size]


def _name(key: str) -> str:
  """Returns a key with only characters that MLflow accepts."""
  return _FOREIGN.sub("_", key)


def _text(value: Any) -> str:
  text = value if isinstance(value, str) else json.dumps(value)
  return text[:_MAX_VALUE_LENGTH]


KIND = TrackerKind(package="mlflow", start=_start)
