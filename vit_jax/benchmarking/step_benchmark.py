"""The train step and the loop, timed against plain baselines in one run."""

import dataclasses
import functools
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from vit_jax import registry
from vit_jax.benchmarking.plain_resnet import PlainResNet
from vit_jax.benchmarking.plain_vit import PlainViT
from vit_jax.config import schema
from vit_jax.data import facts
from vit_jax.durations import EverySteps
from vit_jax.errors import UserError
from vit_jax.models.layers import normalize
from vit_jax.rundir.position import Position
from vit_jax.rundir.run_directory import RunDirectory
from vit_jax.rundir.timing import Clock
from vit_jax.training import experiment, loop
from vit_jax.training.data_stream import DataStream
from vit_jax.training.experiment import Experiment
from vit_jax.training.monitor import Monitor
from vit_jax.training.recovery import Recovery

Options = Mapping[str, str | bool]

_BLOCK = 10  # Steps of a block.
# The baseline of each family that has one.
PLAIN = {
  "vit": lambda model, **sizes: PlainViT(
    **sizes, dropout_rate=model.dropout_rate
  ),
  "resnet": lambda model, **sizes: PlainResNet(**sizes),
}


def measure_step(
  config: schema.Config, *, rounds: int, options: Options | None = None
) -> dict[str, Any]:
  """Times our step and a straightforward Flax one in turn, on one batch.

  The baseline is `PlainViT` or `PlainResNet` of the same size on the same
  images, softmax cross-entropy, clipping and optax.adamw in one jitted,
  donating function. Needs no data, and no TensorFlow if the dataset is
  generated.

  Args:
    config: Experiment to measure.
    rounds: Measured steps of each kind, after two of warmup.
    options: Options of the compiler, for our step.

  Returns:
    `step_seconds` and `plain_step_seconds`, medians; `ratio`, the median over
    rounds of baseline / ours; all `ratios`; and images per second.

  Raises:
    UserError: The network has no plain baseline, or the config has views or
      predicts numbers.
  """
  if config.objective.predicts_numbers:
    raise UserError(
      "The plain baseline learns classes, and config.objective.loss ="
      f" {config.objective.loss!r} numbers; measure the same network with"
      " 'softmax'."
    )
  parts = _build(config)
  if "image" not in parts.abstract_batch():
    raise UserError(
      "The plain baseline trains on one crop of each image; config.train.views"
      f" asks for {', '.join(config.train.views)}. python -m vit_jax.compile"
      " prints what such a step costs."
    )
  batch = _random_batch(parts)
  ours = _stepper(_compiled(parts, options), parts.init_state(), batch)
  plain = _stepper(*_plain_step(parts), batch)
  for step in (ours, plain, ours, plain):
    step()
  pairs = [(ours(), plain()) for _ in range(rounds)]
  seconds = statistics.median(mine for mine, _ in pairs)
  return {
    "step_seconds": seconds,
    "plain_step_seconds": statistics.median(theirs for _, theirs in pairs),
    "ratio": statistics.median(theirs / mine for mine, theirs in pairs),
    "ratios": [theirs / mine for mine, theirs in pairs],
    "images_per_second": config.train.batch_size / seconds,
    "baseline": "vit_jax.benchmarking.plain_*, optax.adamw, one jitted step",
  }


def measure_loop(
  config: schema.Config, *, rounds: int, options: Options | None = None
) -> dict[str, Any]:
  """Times the loop, with data and logging of the config, and bare steps.

  Args:
    config: Experiment to measure.
    rounds: Measured blocks of ten looped and ten bare steps.
    options: Options of the compiler.

  Returns:
    `loop_seconds` and `bare_seconds` of a step; `loop_ratio`, the median over
    blocks of looped / bare; and the share of `data_wait_fraction`.
  """
  source = facts.open_data(config)
  parts = experiment.build(config, facts.of_source(config, source))
  batches = DataStream(parts, source, 0, Position())
  train_step, clock = _compiled(parts, options), Clock()
  bare = _stepper(train_step, parts.init_state(), next(batches))
  with tempfile.TemporaryDirectory() as workdir, closing(batches):
    looped = _Looped(parts, train_step, batches, workdir, clock)
    looped.run()
    bare()
    clock.seconds.clear()
    pairs = [
      (looped.run(), sum(bare() for _ in range(_BLOCK))) for _ in range(rounds)
    ]
    looped.close()
  total = sum(mine for mine, _ in pairs)
  return {
    "loop_seconds": statistics.median(m for m, _ in pairs) / _BLOCK,
    "bare_seconds": statistics.median(b for _, b in pairs) / _BLOCK,
    "loop_ratio": statistics.median(m / b for m, b in pairs),
    "loop_ratios": [m / b for m, b in pairs],
    "data_wait_fraction": clock.seconds["data"] / total,
  }


def _build(config: schema.Config) -> Experiment:
  return experiment.build(config, facts.find(config)[0])


def _compiled(parts: Experiment, options: Options | None) -> Callable[..., Any]:
  return functools.partial(parts.compile(options), parts.constants)


def _random_batch(parts: Experiment) -> dict[str, jax.Array]:
  rng = np.random.default_rng(0)
  limits = {"image": 256, "label": parts.facts.num_classes}
  if captions := parts.facts.features.captions:
    limits["text"] = captions.vocab_size
  return {
    name: jax.device_put(
      rng.integers(0, limits[name], spec.shape).astype(spec.dtype),
      spec.sharding,
    )
    for name, spec in parts.abstract_batch().items()
  }


def _stepper(
  step: Callable[..., Any], state: Any, batch: Any
) -> Callable[[], float]:
  """A function that makes one step and returns its seconds."""

  def run() -> float:
    nonlocal state
    start = time.perf_counter()
    state, metrics = step(state, batch)
    jax.block_until_ready((state, metrics))
    return time.perf_counter() - start

  return run


def _plain_model(model: schema.Model, num_classes: int) -> nn.Module:
  """Flax's layers in the sizes of the config's network."""
  size = dataclasses.asdict(registry.FAMILIES.get(model.name).size(model))
  plain = PLAIN.get(model.name)
  if plain is None:
    raise UserError(
      f"config.model.name = {model.name!r} has no plain baseline to compare"
      f" with; there is one for {' and '.join(map(repr, PLAIN))}."
    )
  return plain(model, num_classes=num_classes, **size)


def _plain_step(parts: Experiment) -> tuple[Callable[..., Any], Any]:
  """The baseline's compiled step and its first state."""
  config = parts.config
  model = _plain_model(config.model, parts.facts.num_classes)
  decay = parts.scalars.get("weight_decay", config.optimizer.weight_decay)
  tx = optax.chain(
    optax.clip_by_global_norm(config.optimizer.grad_clip_norm or 1.0),
    optax.adamw(parts.scalars["learning_rate"], weight_decay=decay),
  )

  def images_of(batch: Any) -> Any:
    return normalize.normalize(batch["image"], config.model.normalize)

  def init() -> Any:
    image = jnp.zeros((1, *parts.abstract_batch()["image"].shape[1:]))
    params = model.init(jax.random.key(config.seed), image)["params"]
    return params, tx.init(params), jnp.zeros((), jnp.int32)

  def step(state: Any, batch: Any) -> Any:
    params, opt_state, count = state

    def loss_fn(params: Any) -> Any:
      key = jax.random.fold_in(jax.random.key(config.seed), count)
      logits = model.apply(
        {"params": params},
        images_of(batch),
        train=True,
        rngs={"dropout": key},
      )
      labels = batch["label"].reshape(len(logits), -1)[:, 0]
      return optax.softmax_cross_entropy_with_integer_labels(
        logits, labels
      ).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return (params, opt_state, count + 1), {"loss": loss}

  return jax.jit(step, donate_argnums=0), jax.jit(init)()


class _Looped:
  """Runs blocks of steps in the loop, one after the other."""

  def __init__(
    self,
    parts: Experiment,
    train_step: Callable[..., Any],
    batches: DataStream,
    workdir: str,
    clock: Clock,
  ):
    self._train_step, self._batches, self._clock = train_step, batches, clock
    self._directory = RunDirectory(workdir, parts, clock)
    self._monitor = Monitor(
      parts,
      self._directory,
      batches,
      Recovery(parts, self._directory, batches, clock),
      clock,
      quiet=True,
    )
    self._monitor.start()
    self._state, self._step = parts.init_state(), 0

  def run(self) -> float:
    """Trains ten steps; returns the seconds until their result is there."""
    start = time.perf_counter()
    self._state, self._step = loop.train(
      self._state,
      self._batches,
      self._monitor.timed(self._train_step),
      first_step=self._step,
      total_steps=self._step + _BLOCK,
      log=self._monitor.log,
      evaluate_due=EverySteps(None).due,
      evaluate=lambda step, state: None,
      save_due=EverySteps(None).due,
      save=lambda step, state: None,
      stop=lambda step: False,
      clock=self._clock,
    )
    jax.block_until_ready(self._state)
    return time.perf_counter() - start

  def close(self) -> None:
    self._monitor.close()
    self._directory.finish("finished")
