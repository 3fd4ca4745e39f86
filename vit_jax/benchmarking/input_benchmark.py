"""Images per second of our input pipeline, compared with a baseline."""

import dataclasses
import itertools
import operator
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.sharding import Mesh

from vit_jax.benchmarking import plain_pipeline
from vit_jax.data import features as features_lib
from vit_jax.data import pipeline, spec
from vit_jax.data.sources import Source
from vit_jax.errors import UserError

_SECONDS = 3.0  # Time for each pipeline in a round.
_WARM_UP_BATCHES = 8


def compare(
  source: Source,
  *,
  preprocess: str,
  image_size: int,
  batch_size: int,
  seed: int,
  mesh: Mesh,
  rounds: int,
  show: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
  """Measures both pipelines in alternation, `rounds` times each.

  Ours yields batches on the devices and runs the device ops there; the plain
  one runs all ops on the host and yields NumPy arrays. Other work of the
  machine slows both. `show` is called with the number of rounds that are done.

  Returns:
    "ratio": the median over the rounds of our images per second over the
    plain pipeline's in the same round; "ratios": of each round;
    "images_per_second" and "plain_images_per_second": medians.

  Raises:
    UserError: The preprocessing does not suit the source or has no plain form.
  """
  if source.num_classes is None:
    raise UserError(
      f"The data ({source.fingerprint}) have no classes, which the plain"
      " pipeline reads too; name a dataset that has."
    )
  parsed = spec.parse(preprocess, image_size)
  features = features_lib.of_images(parsed).of_source(source)

  ours = _pipeline(source, features, batch_size, seed, mesh)

  def plain() -> tuple[Iterator[Any], Callable[[], None]]:
    batches = plain_pipeline.batches(source, parsed, batch_size=batch_size)
    return batches, lambda: None

  # Compile before measuring: batches would pile up meanwhile.
  batches, close = ours()
  next(batches)
  close()
  rates: dict[Any, list[float]] = {ours: [], plain: []}
  for number in range(rounds):
    show(number)
    # The second in a round is the first in the next.
    for start in (ours, plain) if number % 2 else (plain, ours):
      batches, close = start()
      rates[start].append(_batches_per_second(batches) * batch_size)
      close()
  ratios = [a / b for a, b in zip(rates[ours], rates[plain], strict=True)]
  return {
    "ratio": statistics.median(ratios),
    "ratios": ratios,
    "images_per_second": statistics.median(rates[ours]),
    "plain_images_per_second": statistics.median(rates[plain]),
  }


def compare_views(
  source: Source,
  features: features_lib.Features,
  *,
  batch_size: int,
  seed: int,
  mesh: Mesh,
  rounds: int,
  show: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
  """Compares a pipeline of several crops with a pipeline for each crop.

  The former decodes an image once. The latter decode it once for each crop, but
  only the part that the crop needs. All crops of a view cost the same, so one
  of them is measured. `show` is as in `compare`.

  Returns:
    "ratio": the median over the rounds of our images per second over those of
    the pipelines of single crops, one after the other; "ratios": of each
    round; "images_per_second" and "apart_images_per_second": medians, as are
    "build_seconds" and "apart_build_seconds", until the first batch is there.

  Raises:
    UserError: The preprocessing does not suit the source.
  """
  features = features.of_source(source)
  single = [
    dataclasses.replace(
      features, views=(dataclasses.replace(view, count=None),)
    )
    for view in features.views
  ]
  counts = [len(view.streams) for view in features.views]
  pipelines = [
    _pipeline(source, one, batch_size, seed, mesh)
    for one in (features, *single)
  ]
  for start in pipelines:  # Compile before measuring.
    batches, close = start()
    next(batches)
    close()
  together, apart, built, built_apart = [], [], [], []
  for number in range(rounds):
    show(number)
    rates, builds = [], []
    for start in pipelines:
      began = time.perf_counter()
      batches, close = start()
      next(batches)
      builds.append(time.perf_counter() - began)
      rates.append(_batches_per_second(batches) * batch_size)
      close()
    ours, *of_views = rates
    together.append(ours)
    seconds = sum(n / rate for n, rate in zip(counts, of_views, strict=True))
    apart.append(1 / seconds)
    built.append(builds[0])
    built_apart.append(sum(map(operator.mul, counts, builds[1:])))
  ratios = [a / b for a, b in zip(together, apart, strict=True)]
  return {
    "ratio": statistics.median(ratios),
    "ratios": ratios,
    "images_per_second": statistics.median(together),
    "apart_images_per_second": statistics.median(apart),
    "build_seconds": statistics.median(built),
    "apart_build_seconds": statistics.median(built_apart),
  }


def _pipeline(
  source: Source,
  features: features_lib.Features,
  batch_size: int,
  seed: int,
  mesh: Mesh,
) -> Callable[[], tuple[Iterator[Any], Callable[[], None]]]:
  """A function that starts our pipeline: its batches, and what ends it."""

  @jax.jit
  def on_device(batch: Any, rng: Any) -> Any:
    return features.on_device(batch, lambda name: rng)

  def start() -> tuple[Iterator[Any], Callable[[], None]]:
    batches = pipeline.TrainBatches(
      source,
      features=features,
      batch_size=batch_size,
      seed=seed,
      shuffle_block=1,
      first_example=0,
      mesh=mesh,
      prefetch_batches=2,
    )
    rng = jax.random.key(seed)
    done = (jax.block_until_ready(on_device(b, rng)) for b in batches)
    return done, batches.close

  return start


def _batches_per_second(batches: Iterator[Any]) -> float:
  # The first batches wait for the threads to start, the next ones are ready.
  for _ in itertools.islice(batches, _WARM_UP_BATCHES):
    pass
  start = time.perf_counter()
  for count, _ in enumerate(batches, start=1):
    seconds = time.perf_counter() - start
    if seconds >= _SECONDS:
      return count / seconds
  raise AssertionError("training batches do not end")
