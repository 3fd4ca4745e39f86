"""Frozen tokenizers, which assign a token to each patch."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from jaxtyping import Array, Int, UInt8

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.layers.layer_norm import LayerNorm
from vit_jax.objectives import contract, frozen_network, frozen_path
from vit_jax.objectives.beit import centres as centres_lib
from vit_jax.objectives.beit import dvae, kind
from vit_jax.objectives.masked_patch import targets
from vit_jax.objectives.vqkd import quantizer
from vit_jax.paper import cost
from vit_jax.pretrained import reading
from vit_jax.weights.spellings.vit.vqkd import CODEBOOK, QUANTIZER

_TOKENS = 8192  # Number of random centres, as in DALL-E's dVAE.
_NETWORK, _CENTRES, _DVAE = "network", "centres", "dvae"


@dataclasses.dataclass(frozen=True)
class Tokenizer:
  """Tokenizer for patches of the images that the student sees.

  Attributes:
    num_tokens: Number of distinct tokens.
    constants: Parameters that compute the tokens; checkpoints do not store
      them.
    tokens: `tokens(constants.params, images, places)`, the tokens of the
      patches with these indices, [b, k], without gradients.
  """

  num_tokens: int
  constants: contract.Constants
  tokens: Callable[
    [contract.Params, UInt8[Array, "b h w 3"], Int[Array, "b k"]],
    Int[Array, "b k"],
  ]


def read(config: schema.Config) -> Tokenizer:
  """Reads the tokenizer of `config.objective.tokenizer`.

  Raises:
    UserError: The tokenizer cannot be read, does not have the requested number
      of tokens, was built with a different network, or cannot have the
      student's grid.
  """
  path = config.objective.tokenizer
  if path == kind.MEAN_COLOUR:
    return _mean_colour(config.model)
  if frozen_path.RANDOM.fullmatch(path):
    return _random(config)
  if epath.Path(path).suffix == kind.CENTRES:
    return _centres(config)
  return _vqkd(config) if _is_vqkd(path) else _dvae(config)


def _is_vqkd(path: str) -> bool:
  """Returns True for a run, which trains VQ-KD, and for its published files."""
  return epath.Path(path).suffix not in kind.PICKLES or quantizer.is_in(path)


def cost_of(config: schema.Config) -> tuple[int, int]:
  """Returns the number of distinct tokens and the FLOPs per image."""
  objective, model = config.objective, config.model
  path = objective.tokenizer
  if path == kind.MEAN_COLOUR:
    return kind.COLOURS, 0
  if not frozen_path.RANDOM.fullmatch(path):
    if epath.Path(path).suffix != kind.CENTRES:
      return _cost_of_codes(path, model, objective.masked_patches)
    found = centres_lib.read(path)
    num_tokens, width = found.rows.shape
    path = found.network
  else:
    num_tokens = objective.tokens or _TOKENS
    width = registry.FAMILIES.get(model.name).size(model).width
  section = frozen_network.section_of_patches(kind.KEY, path, model)
  flops = cost.forward_flops(section, num_classes=None)
  return num_tokens, flops + 2 * num_tokens * width * objective.masked_patches


def _cost_of_codes(
  path: str, model: schema.Model, masked_patches: int
) -> tuple[int, int]:
  if not _is_vqkd(path):
    side, _ = registry.FAMILIES.get(model.name).grid(model)
    return _dvae_cost(path, dvae.STRIDE * side)
  section = frozen_network.section_of_patches(kind.KEY, path, model)
  num_tokens, code_width = _codebook_shape(path)
  width = registry.FAMILIES.get(section.name).size(section).width
  of_patch = quantizer.flops(width, code_width, num_tokens)
  encoder = cost.forward_flops(section, num_classes=None)
  return num_tokens, encoder + masked_patches * of_patch


@functools.cache
def _codebook_shape(path: str) -> tuple[int, int]:
  """Returns the number of codes and their width, without touching a device.

  Raises:
    UserError: The path is of a run with another objective.
  """
  run = reading.run_config(path)
  if run is not None and run.objective.name == "vqkd":
    return run.objective.tokens, run.objective.code_width
  codes = reading.read(path).beside.get(CODEBOOK) if run is None else None
  if codes is None:
    raise UserError(
      f"{kind.KEY} = {path!r} was not trained by objective 'vqkd', so it"
      " assigns no tokens; make a tokenizer of its features by python -m"
      f" vit_jax.prepare tokenizer --checkpoint={path} --images=DATASET"
      " --output=FILE.npz."
    )
  return codes.shape


@functools.cache
def _dvae_cost(path: str, side: int) -> tuple[int, int]:
  params = dvae.read(path)
  return dvae.num_tokens(params), dvae.flops(params, side)


def _mean_colour(model: schema.Model) -> Tokenizer:
  """Builds the ViT paper's mean colours, which need no network."""
  grid, patch_size = registry.FAMILIES.get(model.name).grid(model)

  def tokens(params, images, places):
    del params
    found = targets.colours(images, patch_size, grid, 1)[:, :, 0]
    return jnp.take_along_axis(found, places, axis=1)

  return Tokenizer(kind.COLOURS, contract.Constants(), tokens)


def _centres(config: schema.Config) -> Tokenizer:
  path = config.objective.tokenizer
  centres = centres_lib.read(path)
  kind.check_tokens(path, len(centres.rows), config.objective.tokens)
  network = frozen_network.read_patches(kind.KEY, centres.network, config.model)
  if network.constants.digests[centres.network] != centres.digest:
    raise UserError(
      f"{kind.KEY} = {path!r} has centres of another network than the one in"
      f" {centres.network!r} now; put that back, or make the tokenizer again."
    )
  digest = contract.digest({_CENTRES: centres.rows})
  return _of_network(
    config, network, centres.rows, network.constants.digests | {path: digest}
  )


def _random(config: schema.Config) -> Tokenizer:
  path = config.objective.tokenizer
  network = frozen_network.read_patches(kind.KEY, path, config.model)
  seed = int(frozen_path.RANDOM.fullmatch(path)[1] or 0)
  shape = (config.objective.tokens or _TOKENS, network.width)
  rows = np.random.default_rng(seed).standard_normal(shape, np.float32)
  return _of_network(
    config, network, centres_lib.unit(rows), network.constants.digests
  )


def _of_network(config, network, rows, digests) -> Tokenizer:
  """Builds a tokenizer by the centre most similar to a patch's feature."""

  def tokens(params, images, places):
    features = network.patches(params[_NETWORK], images, config.model)
    features = jnp.take_along_axis(features, places[:, :, None], axis=1)
    similarity = jnp.einsum(
      "bkd,td->bkt", features, params[_CENTRES], precision="highest"
    )
    return jnp.argmax(similarity, axis=2).astype(jnp.int32)

  params = {_NETWORK: network.constants.params, _CENTRES: rows}
  return Tokenizer(len(rows), contract.Constants(params, digests), tokens)


def _vqkd(config: schema.Config) -> Tokenizer:
  """Builds BEiT v2's tokenizer, on the student's own image."""
  path = config.objective.tokenizer
  num_tokens, _ = _codebook_shape(path)
  kind.check_tokens(path, num_tokens, config.objective.tokens)
  network = frozen_network.read_patches(kind.KEY, path, config.model)
  quantized = jax.tree.map(
    np.asarray, {name: network.beside[name] for name in (QUANTIZER, CODEBOOK)}
  )
  codes = quantized[CODEBOOK]
  if not (codes.any() and np.isfinite(codes).all()):
    raise UserError(
      f"{kind.KEY} = {path!r} has a codebook that is all zeros or holds NaN or"
      " infinity, so its tokens mean nothing; give a trained tokenizer."
    )
  norm = LayerNorm(network.section.layer_norm_eps, "float32")

  def tokens(params, images, places):
    encoder = params[_NETWORK]
    features = network.patches(encoder, images, config.model)
    features = jnp.take_along_axis(features, places[:, :, None], axis=1)
    if network.section.norm_after_pool:
      # The published encoders normalise patches as their mean for a head.
      features = norm.apply({"params": encoder["fc_norm"]}, features)
    directions = quantizer.directions(params[QUANTIZER], features)
    return quantizer.nearest(jnp.asarray(params[CODEBOOK]), directions)

  digests = {
    **network.constants.digests,
    f"{path}/{QUANTIZER}": contract.digest(quantized),
  }
  params = {_NETWORK: network.constants.params, **quantized}
  return Tokenizer(num_tokens, contract.Constants(params, digests), tokens)


def _dvae(config: schema.Config) -> Tokenizer:
  """Builds DALL-E's dVAE, on a smaller view of the student's image."""
  path = config.objective.tokenizer
  params = dvae.read(path)
  kind.check_tokens(path, dvae.num_tokens(params), config.objective.tokens)
  grid, _ = registry.FAMILIES.get(config.model.name).grid(config.model)
  side = dvae.STRIDE * grid

  def tokens(params, images, places):
    pixels = images.astype(jnp.float32) / 255
    shape = (len(images), side, side, 3)
    pixels = jnp.clip(jax.image.resize(pixels, shape, "lanczos3"), 0, 1)
    found = dvae.tokens(params[_DVAE], pixels)
    return jnp.take_along_axis(found, places, axis=1)

  return Tokenizer(
    dvae.num_tokens(params),
    contract.Constants.of(path, {_DVAE: params}),
    tokens,
  )
