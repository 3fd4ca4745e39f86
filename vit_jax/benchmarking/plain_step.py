"""A train step around a straightforward network, for the compiler to judge.

Loss, optimizer, batch and chips are an experiment's own, and so is the way its
parameters are placed. Nothing watches over it: no update is left out.
"""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from vit_jax import registry
from vit_jax.benchmarking.plain_convnext import PlainConvNeXt
from vit_jax.benchmarking.plain_swin import PlainSwin
from vit_jax.benchmarking.plain_vit import PlainViT
from vit_jax.config import schema
from vit_jax.models.layers import normalize
from vit_jax.optim import schedules
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.training.experiment import Experiment


def network(
  model: schema.Model, num_classes: int, softmax_dtype: str
) -> nn.Module:
  """The network of these sizes in Flax's own layers, in `model.dtype`."""
  size = dataclasses.asdict(registry.FAMILIES.get(model.name).size(model))
  size.update(num_classes=num_classes, dtype=model.dtype)
  if model.name == "vit":
    return PlainViT(**size, softmax_dtype=softmax_dtype, gelu=model.gelu)
  del size["version"]
  if model.name == "swin":
    return PlainSwin(**size, softmax_dtype=softmax_dtype)
  return PlainConvNeXt(**size)


def lower(parts: Experiment, softmax_dtype: str) -> jax.stages.Lowered:
  """The step on the experiment's mesh, lowered.

  Args:
    parts: The experiment, of a supervised objective with softmax loss.
    softmax_dtype: Dtype of the softmax of attention.

  Raises:
    ValueError: The network has other parameters than the experiment's.
  """
  config, ours = parts.config, parts.abstract_state
  model = network(config.model, parts.facts.num_classes, softmax_dtype)

  def step(state: Any, batch: Any) -> Any:
    params, opt_state, count = state

    def loss_fn(params: Any) -> Any:
      images = normalize.normalize(
        batch["image"], config.model.normalize, config.model.dtype
      )
      logits = model.apply({"params": params}, images, train=True)
      labels = batch["label"].reshape(len(logits), -1)[:, 0]
      losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
      return losses.mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    opt_state = schedules.at_step(opt_state, count)
    updates, opt_state = parts.tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return (params, opt_state, count + 1), loss

  batch = parts.abstract_batch()
  image = jnp.zeros((1, *batch["image"].shape[1:]))
  wanted = jax.eval_shape(model.init, jax.random.key(0), image)["params"]
  if _shapes(wanted) != _shapes(ours.params):
    raise ValueError(f"{model} and {config.model} differ in their parameters.")
  state = (ours.params, ours.opt_state, ours.step)
  shardings = jax.tree.map(lambda leaf: leaf.sharding, state)
  jitted = jax.jit(
    step,
    out_shardings=(shardings, mesh_lib.replicated(parts.mesh)),
    donate_argnums=0,
  )
  return jitted.lower(state, batch)


def _shapes(params: Any) -> Any:
  return jax.tree.map(lambda leaf: leaf.shape, params)
