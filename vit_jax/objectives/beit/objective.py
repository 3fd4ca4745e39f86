"""BEiT: Bao et al., arXiv 2106.08254.

A mask token replaces the embeddings of patches in some rectangles, and from the
rest the network predicts the token that a frozen tokenizer assigns to each
masked patch. The network is that of a supervised run, without its head;
`mask_token` and `patch_head` are added to it, and are dropped when another run
starts from the parameters.
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
from vit_jax.objectives.beit import start, tokenizers

_TOKEN, _HEAD = "mask_token", "patch_head"


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

  def init(rng: Key[Array, ""]) -> tuple[contract.Params, contract.State]:
    network_rng, start_rng, token_rng, head_rng = jax.random.split(rng, 4)
    images = jnp.zeros((1, *[config.model.image_size] * 2, 3), jnp.uint8)
    params = network.init(network_rng, images)["params"]
    last = head.init(head_rng, jnp.zeros((1, width)))["params"]
    kernel = start.truncated_normal(head_rng, last["kernel"].shape)
    return {
      **start.started(params, start_rng),
      _TOKEN: start.truncated_normal(token_rng, (1, 1, width)),
      _HEAD: {**last, "kernel": kernel},
    }, {}

  def prepare(batch: contract.Batch, rngs: contract.Rngs) -> contract.Batch:
    count, smallest = settings.masked_patches, settings.smallest_block
    return masked_places.prepare(rngs("masks"), batch, count, grid, smallest)

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
    encoded = masked_tokens.encode(
      network,
      params,
      images,
      params[_TOKEN],
      batch["mask"],
      dropout=rngs("dropout"),
      read_at=places,
    )
    logits = head.apply(
      {"params": params[_HEAD]}, encoded.astype(config.model.dtype)
    )
    wanted = jax.lax.stop_gradient(tokenizer.tokens(constants, images, places))
    logits, wanted = (
      logits.reshape(-1, tokenizer.num_tokens),
      wanted.reshape(-1),
    )
    metrics = {
      "loss": losses.softmax_cross_entropy(logits, wanted),
      "accuracy": losses.is_top1(logits, wanted).astype(jnp.float32),
    }
    # Weights refer to the global batch, so that micro-batches add up to it.
    weights = batch["weights"].reshape(-1) / len(images)
    metrics = {
      name: jnp.sum(weights * values) for name, values in metrics.items()
    }
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
