"""The train step and the loop, timed against plain baselines in one run."""

import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from vit_jax.config import schema
from vit_jax.data import pipeline
from vit_jax.durations import EverySteps
from vit_jax.models import normalize, variants
from vit_jax.models.plain_vit import PlainViT
from vit_jax.training import experiment, loop
from vit_jax.training.experiment import Experiment
from vit_jax.training.monitor import Monitor
from vit_jax.training.run_directory import RunDirectory
from vit_jax.training.timing import Clock


def measure(config: schema.Config, *, rounds: int = 10) -> dict[str, Any]:
  """Times our step, a straightforward Flax one and our loop, in turn.

  The baseline is `PlainViT` of the same size with the same batch, softmax
  cross-entropy, clipping and optax.adamw in one jitted, donating function. The
  loop reads the config's data and logs as `train` does.

  Args:
    config: the experiment; its first devices are used as its mesh says.
    rounds: steps of each kind that count, after two that do not.

  Returns:
    Median seconds a step of each kind; `step_speedup`, the median over rounds
    of baseline / ours; `loop_overhead`, the loop's extra share of a bare step;
    and images per second.
  """
  source = experiment.open_data(config)
  parts = experiment.build(config, experiment.facts(config, source))
  batches = pipeline.TrainBatches(
    source,
    preprocess=config.train.preprocess,
    image_size=config.model.image_size,
    batch_size=config.train.batch_size,
    seed=config.seed,
    shuffle_block=config.train.shuffle_block,
    first_example=0,
    mesh=parts.mesh,
    prefetch_batches=config.train.prefetch_batches,
  )
  batch = next(batches)
  train_step = parts.compile()
  ours = _stepper(train_step, parts.init_state(), batch)
  plain = _stepper(*_plain_step(parts), batch)
  with tempfile.TemporaryDirectory() as workdir:
    looped = _looped(parts, train_step, batches, workdir, steps=rounds)
    for step in (ours, plain, ours, plain):
      step()
    pairs = [(ours(), plain()) for _ in range(rounds)]
    bare_before = [ours() for _ in range(rounds)]
    in_loop = looped() / rounds
    bare_after = [ours() for _ in range(rounds)]
  batches.close()
  bare = statistics.mean(bare_before + bare_after)
  seconds = statistics.median(mine for mine, _ in pairs)
  return {
    "step_seconds": seconds,
    "plain_step_seconds": statistics.median(theirs for _, theirs in pairs),
    "step_speedup": statistics.median(b / a for a, b in pairs),
    "images_per_second": config.train.batch_size / seconds,
    "loop_seconds": in_loop,
    "loop_overhead": in_loop / bare - 1,
    "baseline": "a straightforward Flax ViT, optax.adamw, one jitted step",
    "rounds": rounds,
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


def _plain_step(parts: Experiment) -> tuple[Callable[..., Any], Any]:
  """The baseline's compiled step and its first state."""
  config = parts.config
  size = variants.resolve_size(config.model)
  model = PlainViT(
    width=size.width,
    depth=size.depth,
    num_heads=size.num_heads,
    mlp_dim=size.mlp_dim,
    patch_size=size.patch_size,
    num_classes=parts.facts.num_classes,
    dropout_rate=config.model.dropout_rate,
  )
  tx = optax.chain(
    optax.clip_by_global_norm(config.optimizer.grad_clip_norm or 1.0),
    optax.adamw(parts.schedule, weight_decay=config.optimizer.weight_decay),
  )

  def images_of(batch: Any) -> Any:
    return normalize.normalize(batch["image"], config.model.normalize)

  def init() -> Any:
    image = jnp.zeros((1, *parts.objective.batch_spec["image"].shape[1:]))
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


def _looped(
  parts: Experiment,
  train_step: Callable[..., Any],
  batches: pipeline.TrainBatches,
  workdir: str,
  *,
  steps: int,
) -> Callable[[], float]:
  """A function that trains `steps` steps in the loop; returns the seconds."""
  clock = Clock()
  directory = RunDirectory(workdir, parts, clock)
  monitor = Monitor(parts, directory, clock)
  monitor.start()
  state = parts.init_state()

  def run() -> float:
    start = time.perf_counter()
    last, _ = loop.train(
      state,
      batches,
      train_step,
      first_step=0,
      total_steps=steps,
      log=monitor.log,
      evaluate_due=EverySteps(None).due,
      evaluate=lambda step, state: None,
      save_due=EverySteps(None).due,
      save=lambda step, state: None,
      stop=directory.store.reached_preemption,
      clock=clock,
    )
    jax.block_until_ready(last)
    seconds = time.perf_counter() - start
    monitor.close()
    directory.finish("finished")
    return seconds

  return run
