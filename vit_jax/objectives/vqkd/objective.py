"""VQ-KD, which trains the tokenizer of BEiT v2: Peng et al., arXiv 2208.06366.

Two layers map each patch of the encoder to a vector of length 1, which is
replaced by the nearest of the codes. From the codes, a decoder predicts the
direction of a frozen teacher's features. Gradients pass the replacement as if
there were none, and vectors are drawn to their codes; the codes follow the
vectors without gradients. There are no labels. modeling_vqkd.py in
microsoft/unilm, beit2.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.models import build as models_build
from vit_jax.models import features
from vit_jax.objectives import contract
from vit_jax.objectives.beit import start
from vit_jax.objectives.feature_prediction.objective import cosine
from vit_jax.objectives.frozen_network import FrozenNetwork
from vit_jax.objectives.vqkd import codebook, decoder, kind, quantizer
from vit_jax.weights.spellings.vit.vqkd import CODEBOOK, QUANTIZER


def quantized_distillation(
  config: schema.Config, teacher: FrozenNetwork
) -> contract.Objective:
  """Builds VQ-KD with the Vision Transformer of a config as the encoder.

  Args:
    config: The experiment.
    teacher: Frozen network with the encoder's grid of patches.
  """
  # Initial values of the released code, apart from `start.rescaled`.
  model = config.model.updated(weight_init="deit")
  settings = config.objective
  network = models_build.create(model, num_classes=None)
  width = network.width
  grid, _ = registry.FAMILIES.get(model.name).grid(model)
  count, code_width = settings.tokens, settings.code_width
  decode = decoder.Decoder(
    network.layer_config(),
    width,
    settings.decoder_depth,
    grid,
    teacher.width,
    scan_layers=model.scan_layers,
    remat=model.remat,
  )

  def init(rng: Key[Array, ""]) -> tuple[contract.Params, contract.State]:
    encoder_rng, decoder_rng, hidden_rng, code_rng = jax.random.split(rng, 4)
    images = jnp.zeros((1, *[model.image_size] * 2, 3), jnp.uint8)
    codes = jnp.zeros((1, grid**2, code_width))
    normal = nn.initializers.normal(0.02)
    params = {
      **start.rescaled(network.init(encoder_rng, images)["params"]),
      kind.DECODER: start.rescaled(decode.init(decoder_rng, codes)["params"]),
      QUANTIZER: {
        "hidden": {
          "kernel": normal(hidden_rng, (width, width)),
          "bias": jnp.zeros(width),
        },
        "code": {
          "kernel": normal(code_rng, (width, code_width)),
          "bias": jnp.zeros(code_width),
        },
      },
    }
    # The codes are those of the first batch.
    return params, {
      CODEBOOK: jnp.zeros((count, code_width)),
      "started": jnp.zeros(()),
    }

  def loss(
    params: contract.Params,
    constants: contract.Params,
    objective_state: contract.State,
    batch: contract.Batch,
    rngs: contract.Rngs,
    step: Int[Array, ""] | int,
  ) -> tuple[Float[Array, ""], tuple[contract.Aux, contract.Metrics]]:
    del step
    images = batch["image"]
    patches = network.apply(
      {"params": params},
      images,
      rngs={"dropout": rngs("dropout")},
      method=_encoded,
    )
    x = quantizer.directions(params[QUANTIZER], patches.astype(jnp.float32))
    fixed = jax.lax.stop_gradient(x)
    codes = jax.lax.cond(
      objective_state["started"] > 0,
      lambda: objective_state[CODEBOOK],
      lambda: codebook.start(rngs("codes"), fixed, count),
    )
    tokens = quantizer.nearest(codes, fixed)
    chosen = jnp.take(codes, tokens, axis=0)
    quantization = jnp.mean(jnp.square(chosen - x))
    predicted = decode.apply(
      {"params": params[kind.DECODER]},
      # The value is that of the code, the gradient that of the vector.
      x + jax.lax.stop_gradient(chosen - x),
      rngs={"dropout": rngs("decoder")},
    )
    wanted = teacher.patches(constants, images, model)
    reconstruction = 1 - cosine(predicted, wanted).mean()
    counts, sums = codebook.assigned(tokens, fixed, count)
    metrics = {
      "loss": quantization + reconstruction,
      "quantization_loss": quantization,
      "reconstruction_loss": reconstruction,
      "codes_used": jnp.mean(counts > 0, dtype=jnp.float32),
    }
    aux = {
      "counts": counts / len(images),
      "sums": sums / len(images),
      CODEBOOK: codes,
    }
    return metrics["loss"], (aux, metrics)

  def after_update(
    objective_state: contract.State,
    params: contract.Params,
    aux: contract.Aux,
    step: Int[Array, ""] | int,
  ) -> contract.State:
    del params, step
    codes = codebook.updated(
      aux[CODEBOOK], aux["counts"], aux["sums"], settings.code_momentum
    )
    started = jnp.ones_like(objective_state["started"])
    return {CODEBOOK: codes, "started": started}

  def outputs(params: contract.Params, batch: contract.Batch) -> dict[str, Any]:
    return features.features(network, params, batch["image"], ("pre_logits",))

  return contract.Objective(
    init=init,
    loss=loss,
    outputs=outputs,
    after_update=after_update,
    constants=teacher.constants,
  )


def _encoded(network, images):
  """Patches after the last norm."""
  grid = network.patch_grid(*images.shape[1:3])
  tokens = network.encode(network.embed(images), grid=grid, train=True)
  return tokens[:, network.num_prefix :]
