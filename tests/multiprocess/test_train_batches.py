"""Real processes get the rows of one global batch, as one process would."""

import socket
import subprocess
import sys

import numpy as np
import pytest

WORKER = """
import sys
import jax, numpy as np
from jax.sharding import AxisType
count, number, repeats = map(int, sys.argv[1:4])
port, path = sys.argv[4:]
if count > 1:
  jax.distributed.initialize(f"localhost:{port}", count, number)
from vit_jax.data import features, pipeline, sources, spec
mesh = jax.make_mesh(
  (2, jax.device_count() // 2), ("data", "fsdp"),
  axis_types=(AxisType.Auto,) * 2,
)
batches = pipeline.TrainBatches(
  sources.open_source("generated:examples=20,size=24", "train", data_dir=None),
  features=features.of_images(spec.parse("decode|inception_crop", 16)),
  batch_size=8, seed=1, repeats=repeats,
  shuffle_block=1, first_example=16, mesh=mesh, prefetch_batches=2,
)
rows = {}
for step in range(4):
  batch = next(batches)
  for name, array in batch.items():
    for shard in array.addressable_shards:
      start = shard.index[0].indices(8)[0]
      for offset, row in enumerate(np.asarray(shard.data)):
        rows[f"{name}/{step}/{start + offset}"] = row
batches.close()
np.savez(f"{path}/{count}_{number}.npz", **rows)
"""


def rows_of(count, repeats, repo, path):
  """Every row of four batches, from `count` processes with 4 devices in all."""
  with socket.socket() as free:
    free.bind(("localhost", 0))
    port = free.getsockname()[1]
  code = f"import os; os.environ['JAX_NUM_CPU_DEVICES'] = '{4 // count}'\n"
  workers = [
    subprocess.Popen(
      [sys.executable, "-c", code + WORKER]
      + [str(count), str(number), str(repeats), str(port), str(path)],
      cwd=repo,
    )
    for number in range(count)
  ]
  assert [worker.wait(timeout=240) for worker in workers] == [0] * count
  rows = {}
  for number in range(count):
    with np.load(path / f"{count}_{number}.npz") as part:
      assert not rows.keys() & part.keys()  # No row is read twice.
      rows |= dict(part)
  return rows


@pytest.mark.slow
@pytest.mark.parametrize(
  ("count", "repeats"),
  [(2, 1), (2, 8), pytest.param(4, 1, marks=pytest.mark.exhaustive)],
)
def test_processes_share_the_batches_of_one_process(
  count, repeats, repo, tmp_path
):
  expected = rows_of(1, repeats, repo, tmp_path)
  found = rows_of(count, repeats, repo, tmp_path)
  assert len(expected) == 2 * 4 * 8
  assert found.keys() == expected.keys()
  for name, row in expected.items():
    assert np.array_equal(found[name], row), name
