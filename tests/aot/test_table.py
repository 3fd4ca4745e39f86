"""What people read."""

import collections
import re

import pytest

from tests import experiments
from tests.aot import compilations
from vit_jax.aot import table
from vit_jax.aot.collectives import Collective
from vit_jax.aot.hlo_cost import Cost


def lines(found) -> dict[str, str]:
  """What stands behind each name."""
  rows = (line.split("  ", 1) for line in table.describe(found).splitlines())
  return {row[0]: row[1].strip() for row in rows if len(row) == 2}


def test_memory_is_told_apart():
  rows = lines(compilations.fits("v5e:2x2", Cost(cycles=1e6, flops=10**7)))
  assert rows["parameters"] == rows["optimizer"] == "1.00 GiB"
  assert rows["padding of these"] == "1.00 GiB"
  assert rows["outputs"] == "0 B"  # But for those that overwrite arguments.
  assert rows["total"] == "4.00 GiB, 25% of 16.00 GiB"
  assert "averaged parameters" not in rows


def test_what_is_computed_twice_is_a_share():
  found = compilations.fits("v5e:2x2", Cost(cycles=1e6))
  model_flops = found.parts.flops_per_step // 4
  twice = compilations.fits("v5e:2x2", Cost(cycles=1e6, flops=2 * model_flops))
  assert lines(twice)["recomputed"].startswith("50.0%")
  less = compilations.fits("v5e:2x2", Cost(cycles=1e6, flops=model_flops - 9))
  assert lines(less)["recomputed"].startswith("0.0%")


def test_kernels_and_what_has_no_cost_are_named():
  cost = Cost(cycles=3e6, kernel_cycles=1e6, kernel_calls=24, flops=10**7)
  cost.uncosted = collections.Counter({"somebodys_kernel": 12})
  cost.loops_of_unknown_length = 2
  rows = lines(compilations.fits("v5e:2x2", cost))
  assert rows["cycles"] == "3,000,000"
  text = table.describe(compilations.fits("v5e:2x2", cost))
  assert "1,000,000, at least (a bound)" in text
  assert "12 calls of somebodys_kernel, cost unknown" in text
  assert "2 loops of unknown length" in text
  assert rows["recomputed"].startswith("not known")


def test_a_run_is_counted_in_cores_where_jax_counts_them():
  cost = Cost(cycles=1e12, flops=10**7)
  assert "core-days" in table.describe(compilations.fits("v3:2x2", cost))
  assert "chip-days" in table.describe(compilations.fits("v4:2x2x1", cost))


def test_exchanges_are_listed_and_those_between_slices_set_apart():
  cost = Cost(cycles=1e6, flops=10**7)
  cost.collectives[Collective("all-reduce", 2**20, 4)] = 3
  text = table.describe(compilations.fits("v5e:2x2", cost))
  assert "all-reduce  3 of 3.00 MiB together" in text
  assert "slices" not in text
  cost.collectives[Collective("between-slices", 2**20, 4)] = 1
  text = table.describe(compilations.fits("2*v5e:2x2", cost))
  assert "not in the time below" in text


def test_what_does_not_fit_is_told_with_what_to_do():
  text = table.describe(compilations.too_large("v5e:2x2"))
  assert "It does not fit: 32.00 GiB are needed and 16.00 GiB are there" in text
  assert "config.train.accumulate_steps" in text and "--sweep" in text
  assert "Time" not in text


def test_scores_of_many_tokens_are_named_as_the_reason():
  long = {"model__image_size": 2048, "train__batch_size": 16}
  text = table.describe(compilations.too_large("v5e:2x2", **long))
  found = re.search(
    r"Scores of (\d+) x \1 tokens alone take ([\d.]+) GiB", text
  )
  assert found and "config.model.attention=flash" in text
  tokens, model = int(found[1]), experiments.config(**long).model
  assert tokens == (2048 // 4) ** 2 + 1
  gib = 4 * model.depth * model.num_heads * tokens**2 * 4 / 2**30
  assert float(found[2]) == pytest.approx(gib, rel=1e-2)
  short = table.describe(compilations.too_large("v5e:2x2"))
  assert "Scores" not in short
