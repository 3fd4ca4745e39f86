"""BEiT: Bao et al., arXiv 2106.08254.

A mask token replaces the embeddings of patches in some rectangles, and from the
rest the network predicts the token that a frozen tokenizer assigns to each
masked patch. The network is that of a supervised run, without its head;
`mask_token` and `patch_head` are added to it, and are dropped when another run
starts from the parameters.

BEiT v2 (Peng et al., arXiv 2208.06366) adds layers that predict the same tokens
with the same head from the class token, `aggregation`.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.models import build as models_build
from vit_jax.models import features
from vit_jax.models.layers import heads
from vit_jax.objectives import contract, losses, masked_places, masked_tokens
from vit_jax.objectives.beit import aggregation, start, tokenizers

_TOKEN, _HEAD = "mask_token", "patch_head"
_AGGREGATION = "aggregation"


def beit(config: schema.Config) -> contract.Objective:
  """Builds the prediction of tokens by the Vision Transformer of a config.

  Raises:
    UserError: The tokenizer cannot be read or does not match the network.
  """
  settings = config.objective
  family = registry.FAMILIES.get(config.model.name)
  width = family.size(config.model).width
  grid, _ = family.grid(config.model)
  tokenizer = tokenizers.read(config)
  network = models_build.create(config.model, num_classes=None)
  head = heads.LinearHead(tokenizer.num_tokens, 0.0, config.model.dtype)
  early_layers, num_layers = settings.early_layers, settings.head_layers
  layers = aggregation.after(network, early_layers, num_layers)

  def init(rng: Key[Array, ""]) -> tuple[contract.Params, contract.State]:
    network_rng, start_rng, token_rng, head_rng = jax.random.split(rng, 4)
    images = jnp.zeros((1, *[config.model.image_size] * 2, 3), jnp.uint8)
    params = network.init(network_rng, images)["params"]
    last = head.init(head_rng, jnp.zeros((1, width)))["params"]
    kernel = start.truncated_normal(head_rng, last["kernel"].shape)
    found = {
      **start.started(params, start_rng),
      _TOKEN: start.truncated_normal(token_rng, (1, 1, width)),
      _HEAD: {**last, "kernel": kernel},
    }
    if num_layers:
      layers_rng = jax.random.fold_in(rng, num_layers)
      tokens = jnp.zeros((1, network.num_prefix + grid**2, width))
      added = layers.init(layers_rng, tokens)["params"]
      found[_AGGREGATION] = aggregation.started(added, layers_rng, early_layers)
    return found, {}

  def prepare(batch: contract.Batch, rngs: contract.Rngs) -> contract.Batch:
    count, smallest = settings.masked_patches, settings.smallest_block
    return masked_places.prepare(
      rngs("masks"), batch, count, grid, smallest, fill=settings.fill_masks
    )

  def loss(
    params: contract.Params,
    constants: contract.Params,
    objective_state: contract.State,
    batch: contract.Batch,
    rngs: contract.Rngs,
    step: Int[Array, ""] | int,
  ) -> tuple[Float[Array, ""], tuple[contract.Aux, contract.Metrics]]:
    del objective_state, step
    images, places = batch["image"], batch["places"]
    wanted = jax.lax.stop_gradient(tokenizer.tokens(constants, images, places))
    wanted = wanted.reshape(-1)
    # Weights refer to the global batch, so that micro-batches add up to it.
    weights = batch["weights"].reshape(-1) / len(images)

    def predicted(patches):
      """Returns the loss and the accuracy of patches of some layer."""
      logits = head.apply(
        {"params": params[_HEAD]}, patches.astype(config.model.dtype)
      )
      logits = logits.reshape(-1, tokenizer.num_tokens)
      of_patches = (
        losses.softmax_cross_entropy(logits, wanted),
        losses.is_top1(logits, wanted).astype(jnp.float32),
      )
      return tuple(jnp.sum(weights * values) for values in of_patches)

    inputs = (network, params, images, params[_TOKEN], batch["mask"])
    if num_layers:
      patches, tokens = masked_tokens.encode_twice(
        *inputs,
        dropout=rngs("dropout"),
        read_at=places,
        early_layers=early_layers,
      )
    else:
      patches = masked_tokens.encode(
        *inputs, dropout=rngs("dropout"), read_at=places
      )
    loss, accuracy = predicted(patches)
    metrics = {"loss": loss, "accuracy": accuracy}
    if num_layers:
      tokens = layers.apply(
        {"params": params[_AGGREGATION]},
        tokens,
        aggregation.relative_bias(network, params, (grid, grid)),
        network.num_prefix + places,
        train=True,
        rngs={"dropout": rngs("aggregation")},
      )
      loss, accuracy = predicted(aggregation.last_norm(network, params, tokens))
      metrics["loss"] += loss
      metrics |= {"aggregation_loss": loss, "aggregation_accuracy": accuracy}
    metrics["masked_share"] = batch["mask"].mean(dtype=jnp.float32)
    return metrics["loss"], ({}, metrics)

  def outputs(params: contract.Params, batch: contract.Batch) -> dict[str, Any]:
    return features.features(network, params, batch["image"], ("pre_logits",))

  return contract.Objective(
    init=init,
    prepare=prepare,
    loss=loss,
    outputs=outputs,
    constants=tokenizer.constants,
  )
