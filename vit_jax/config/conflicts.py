"""Rules between keys of a config that need neither data nor a device."""

import math
import re
from collections.abc import Iterator

from vit_jax import durations, registry
from vit_jax.config import schema
from vit_jax.suggestions import nearest_multiples


def find(config: schema.Config) -> Iterator[str]:
  """Yields a sentence for each rule that a config breaks."""
  yield from _of_length(config)
  yield from _of_schedule(config)
  yield from _of_batches(config)
  yield from _of_start(config)
  yield from _of_mesh(config.mesh)
  for name in config.log.to:
    if name not in registry.TRACKERS.names():
      yield registry.TRACKERS.unknown(name)
  for name, entry in config.evals.items():
    if getattr(entry, "datasets", None) == {}:
      yield f"config.evals.{name}.datasets is empty; name at least one dataset."


def _of_length(config: schema.Config) -> Iterator[str]:
  if config.total_steps is not None:
    return
  if config.total_epochs is None:
    yield (
      "The length of training is not set: give config.total_steps or"
      " config.total_epochs."
    )
  if config.max_epochs is not None:
    yield (
      f"config.max_epochs = {config.max_epochs:g} shortens a run of"
      " config.total_steps, which is not set; give config.total_epochs alone."
    )


def _of_schedule(config: schema.Config) -> Iterator[str]:
  schedule, steps = config.schedule, config.total_steps
  epochs = config.total_epochs
  warmup = durations.parse(schedule.warmup_steps)
  if steps is not None:
    if warmup.unit == "step" and warmup.amount >= steps:
      yield (
        f"config.schedule.warmup_steps = {schedule.warmup_steps} is not"
        f" shorter than the run of config.total_steps = {steps}; lower it."
      )
  elif epochs is not None:
    if warmup.unit == "epoch" and warmup.amount >= epochs:
      yield (
        f"config.schedule.warmup_steps = {schedule.warmup_steps!r} is not"
        f" shorter than the run of config.total_epochs = {epochs:g}; lower it."
      )
  if schedule.decay == "steps" and not schedule.boundaries:
    yield (
      'config.schedule.decay = "steps" needs config.schedule.boundaries,'
      " such as (30_000, 60_000)."
    )


def _of_batches(config: schema.Config) -> Iterator[str]:
  train = config.train
  if train.batch_size % train.accumulate_steps:
    yield (
      f"config.train.batch_size = {train.batch_size} does not divide into"
      f" config.train.accumulate_steps = {train.accumulate_steps}"
      " micro-batches; use"
      f" {nearest_multiples(train.batch_size, train.accumulate_steps)}."
    )
  if train.batch_size % train.repeats:
    yield (
      f"config.train.batch_size = {train.batch_size} does not divide into"
      f" examples that are repeated config.train.repeats = {train.repeats}"
      f" times; use {nearest_multiples(train.batch_size, train.repeats)}."
    )
  if train.sampling == "balanced" and train.shuffle_block > 1:
    yield (
      f"config.train.shuffle_block = {train.shuffle_block} keeps neighbouring"
      " records together, and config.train.sampling = 'balanced' takes those of"
      " each class wherever they are; leave one of the two at its default."
    )
  group = getattr(config.model, "stochastic_depth_group", None)
  skips = group is not None and config.model.stochastic_depth_rate > 0
  micro_batch = train.batch_size // train.accumulate_steps
  if skips and math.gcd(micro_batch, group) == 1:
    yield (
      f"config.model.stochastic_depth_group = {group} and micro-batches of"
      f" {micro_batch} examples make groups of one, which nothing can skip; use"
      " numbers with a common divisor, or leave stochastic_depth_group unset."
    )


def _of_start(config: schema.Config) -> Iterator[str]:
  if config.init_classes is not None and config.init_from is None:
    yield (
      f"config.init_classes = {config.init_classes!r} chooses from the head of"
      " config.init_from, which is not set; set both or neither."
    )
  known = registry.FAMILIES.get(config.model.name).parts
  if config.init_part is not None and config.init_part not in known:
    parts = ", ".join(map(repr, known)) or "none"
    yield (
      f"config.init_part = {config.init_part!r} is not a part of"
      f" config.model.name = {config.model.name!r}, which has {parts}; leave it"
      " unset, or name another."
    )


def _of_mesh(mesh: schema.Mesh) -> Iterator[str]:
  for pattern, _ in mesh.rules:
    try:
      re.compile(pattern)
    except re.error as error:
      yield (
        f"config.mesh.rules: {pattern!r} is not a regular expression ({error})."
      )
  sizes = {"data": mesh.data, "fsdp": mesh.fsdp, "tensor": mesh.tensor}
  for axis, size in sizes.items():
    if size != "auto" and size < 1 and size != -1:
      others = ", or 'auto'" if axis == "fsdp" else ""
      yield (
        f"config.mesh.{axis} = {size} must be a number of devices, or -1 for"
        f" all that are left{others}."
      )
  if list(sizes.values()).count(-1) > 1:
    free = [f"config.mesh.{axis}" for axis, size in sizes.items() if size == -1]
    yield f"Only one mesh axis may be -1; {' and '.join(free)} are."
