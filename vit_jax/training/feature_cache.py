"""On-disk cache for features of the training images, computed once."""

import hashlib
import logging
import os
import pathlib
from typing import Any

import jax
import numpy as np

from vit_jax.data import pipeline, spec
from vit_jax.data.sources import Source
from vit_jax.data.stored_features import WithFeature
from vit_jax.errors import UserError
from vit_jax.objectives import contract
from vit_jax.processes import agreement
from vit_jax.sharding import activations
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.training.experiment import Experiment

_ROWS, _DONE = "rows.npy", "batches_done.txt"
_BATCHES = 20  # Batches between two records of the progress.
_logger = logging.getLogger(__name__)


def with_stored(parts: Experiment, source: Source, params: Any) -> Source:
  """Returns the source with the objective's stored feature in its records.

  Missing rows of the file are computed batch by batch, as in training; each
  process writes the rows that its devices hold. The file is specific to these
  parameters, keys, preprocessing and data.

  Args:
    parts: The experiment, whose objective has a stored feature.
    source: The training data.
    params: Parameters of the network, with their shardings.

  Raises:
    UserError: The directory cannot be written.
  """
  stored = parts.objective.stored
  folder = pathlib.Path(stored.directory) / _digest(parts, source, params)
  shape = (source.num_examples, *stored.shape)
  try:
    _create(folder, shape)
    _fill(parts, source, params, folder)
  except OSError as error:
    raise UserError(
      f"config.objective.cache_frozen = {stored.directory!r} cannot be written"
      f" ({error.strerror or error}); name another directory, or free space."
    ) from error
  return WithFeature(
    source, stored.feature, np.load(folder / _ROWS, mmap_mode="r")
  )


def _digest(parts: Experiment, source: Source, params: Any) -> str:
  """Returns a digest of everything that the file depends on."""
  stored, train = parts.objective.stored, parts.config.train
  replicated = mesh_lib.replicated(parts.mesh)
  tower = jax.jit(lambda tree: tree, out_shardings=replicated)(
    stored.params(params)
  )
  lines = [
    contract.digest(jax.device_get(tower)),
    stored.keys,
    train.preprocess,
    str(train.batch_size),
    source.fingerprint,
  ]
  if train.image_key != "image":
    lines.append(train.image_key)
  text = "\n".join(lines)
  return hashlib.sha256(text.encode()).hexdigest()[:32]


def _create(folder: pathlib.Path, shape: tuple[int, ...]) -> None:
  """Creates the file in process 0 before any process opens it."""
  if jax.process_index() == 0 and not (folder / _DONE).exists():
    folder.mkdir(parents=True, exist_ok=True)
    np.lib.format.open_memmap(
      folder / _ROWS, mode="w+", dtype=np.float32, shape=shape
    ).flush()
    _mark(folder / _DONE, 0)
  agreement.gather("")


def _mark(path: pathlib.Path, count: int) -> None:
  new = path.with_suffix(".new")
  new.write_text(str(count))
  new.replace(path)


def _fill(
  parts: Experiment,
  source: Source,
  params: Any,
  folder: pathlib.Path,
) -> None:
  """Computes the rows of the batches that are not marked as done."""
  config, stored = parts.config, parts.objective.stored
  batch_size = config.train.batch_size
  count = -(-source.num_examples // batch_size)
  done = folder / _DONE
  first = int(done.read_text())
  agreement.gather("")  # All have read it before process 0 rewrites it.
  if first == count:
    return
  _logger.info("Embedding %d images: %s.", source.num_examples, folder)
  compute = jax.jit(
    activations.on(parts.mesh, stored.compute),
    out_shardings=mesh_lib.batch_sharding(parts.mesh),
  )
  batches = pipeline.eval_batches(
    source,
    preprocess=spec.parse(config.train.preprocess, config.model.image_size),
    batch_size=batch_size,
    mesh=parts.mesh,
    first_batch=first,
  )
  # Written as a file: with a memory map, a full disk would end the process, and
  # hosts that share a page could lose each other's rows.
  rows = np.load(folder / _ROWS, mmap_mode="r")
  with open(folder / _ROWS, "r+b") as file:
    for number, batch in enumerate(batches, start=first):
      found = compute(params, batch["image"])
      for shard in found.addressable_shards:
        start, stop, _ = shard.index[0].indices(batch_size)
        values = np.asarray(shard.data, rows.dtype)
        start += number * batch_size
        stop = min(stop + number * batch_size, len(rows))
        if shard.replica_id == 0 and start < stop:
          file.seek(rows.offset + start * rows.strides[0])
          file.write(values[: stop - start].tobytes())
      if (number + 1) % _BATCHES == 0 or number + 1 == count:
        file.flush()
        os.fsync(file.fileno())
        agreement.gather("")
        if jax.process_index() == 0:
          _mark(done, number + 1)
