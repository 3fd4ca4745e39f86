"""The stack of encoder blocks: equations 2 and 3 of the paper."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from vit_jax.models.layers.attention import ATTENTION_MAPS, MultiHeadAttention
from vit_jax.models.layers.dropout import Dropout
from vit_jax.models.layers.embeddings import PositionEmbedding, RelativeKeys
from vit_jax.models.layers.layer_norm import LayerNorm
from vit_jax.models.layers.mlp import LayerConfig, MlpBlock

# What the backward pass finds ready, per `config.model.remat`; the rest is
# computed again. 'dots' keeps the results of all products with parameters;
# 'named' keeps what attention's backward pass and the MLP start from, 5 D
# numbers a token against 9 D; 'offload' keeps the same in the host's memory.
_KEPT = ["query", "key", "value", "context", "after_attention"]
REMAT_POLICIES = {
  "full": jax.checkpoint_policies.nothing_saveable,
  "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
  "named": jax.checkpoint_policies.save_only_these_names(*_KEPT),
  "offload": jax.checkpoint_policies.save_and_offload_only_these_names(
    names_which_can_be_saved=[],
    names_which_can_be_offloaded=_KEPT,
    offload_src="device",
    offload_dst="pinned_host",
  ),
}

# What the dimensions of the residual stream are; whoever has a mesh says how
# they lie on it.
BETWEEN_BLOCKS = ("batch", "tokens", "width")


class EncoderBlock(nn.Module):
  """Pre-norm attention and MLP, each added to what came in."""

  config: LayerConfig
  train: bool

  @nn.compact
  def __call__(
    self,
    tokens: Float[Array, "b n d"],
    posemb: Float[Array, "n d"] | None,
    relative_keys: Float[Array, "offsets heads k"] | None,
    drop_rate: Float[Array, ""] | None,
  ) -> tuple[Float[Array, "b n d"], None]:
    """One layer.

    Args:
      tokens: the residual stream.
      posemb: position embedding that this layer adds first.
      relative_keys: see `MultiHeadAttention`.
      drop_rate: probability that an example skips a branch of this layer.

    Returns:
      The tokens and None, the pair that `nn.scan` wants.
    """
    config = self.config
    norm = functools.partial(LayerNorm, config.layer_norm_eps, config.dtype)
    if posemb is not None:
      tokens = tokens + posemb.astype(tokens.dtype)[None]

    x = norm(name="LayerNorm_0")(tokens)
    x = MultiHeadAttention(config, name="MultiHeadDotProductAttention_0")(
      x, x, relative_keys
    )
    x = Dropout(config.dropout_rate, deterministic=not self.train)(x)
    tokens = tokens + self._skip_examples(x, drop_rate)
    tokens = checkpoint_name(tokens, "after_attention")

    x = norm(name="LayerNorm_1")(tokens)
    x = MlpBlock(config, self.train, name="MlpBlock_0")(x)
    tokens = tokens + self._skip_examples(x, drop_rate)
    tokens = nn.with_logical_constraint(tokens, BETWEEN_BLOCKS)
    self.sow("intermediates", "tokens", tokens)
    return tokens, None

  def _skip_examples(self, branch, drop_rate):
    """Stochastic depth: the branch is zeroed for some examples."""
    if drop_rate is None:
      return branch
    keep = 1.0 - drop_rate
    shape = (branch.shape[0], 1, 1)
    kept = jax.random.bernoulli(self.make_rng("dropout"), keep, shape)
    return branch * (kept.astype(jnp.float32) / keep).astype(branch.dtype)


class Encoder(nn.Module):
  """Position embedding, dropout, `depth` blocks and a last LayerNorm.

  A position embedding at every layer is added before each block, at the first
  one in place of the stem's. Relative keys have no place at the stem: they
  are one table per layer there as well, or one for all if shared. The last
  LayerNorm is left out where `norm` is False.
  """

  config: LayerConfig
  depth: int
  pos_embedding: str = "learned_1d"
  pos_embedding_at: str = "stem"
  stochastic_depth_rate: float = 0.0
  scan_layers: bool = False
  remat: str = "none"
  norm: bool = True

  @nn.compact
  def __call__(
    self,
    tokens: Float[Array, "b n d"],
    grid: tuple[int, int],
    *,
    has_cls: bool,
    train: bool,
  ) -> Float[Array, "b n d"]:
    """Encodes tokens.

    Args:
      tokens: the cls token first if there is one, then patches row by row.
      grid: rows and columns of patches.
      has_cls: whether there is a cls token.
      train: whether dropout and stochastic depth act.

    Returns:
      The tokens of the last layer, normalised.
    """
    tokens, layer_posembs = self._embed_positions(tokens, grid, has_cls)
    dropout = Dropout(self.config.dropout_rate, deterministic=not train)
    tokens = dropout(tokens)
    tokens = nn.with_logical_constraint(tokens, BETWEEN_BLOCKS)
    self.sow("intermediates", "embedded", tokens)

    drop_rates = None
    if train and self.stochastic_depth_rate:
      drop_rates = jnp.linspace(0, self.stochastic_depth_rate, self.depth)
    relative_keys = self._relative_keys(tokens)
    per_layer = (layer_posembs, relative_keys, drop_rates)
    tokens = self._apply_blocks(tokens, per_layer, train)
    if not self.norm:
      return tokens
    norm = LayerNorm(
      self.config.layer_norm_eps, self.config.dtype, name="encoder_norm"
    )
    return norm(tokens)

  def _embed_positions(self, tokens, grid, has_cls):
    """Tokens with the stem's embedding, and [depth, n, d] or None."""
    if self.pos_embedding in ("none", "relative"):
      return tokens, None
    width = tokens.shape[-1]
    every_layer = self.pos_embedding_at == "every_layer"
    embedding = PositionEmbedding(
      self.pos_embedding,
      self.depth if every_layer else 1,
      name="posembed_input",
    )
    tables = embedding(grid, width, has_cls)
    tokens = tokens + tables[:1].astype(tokens.dtype)
    if self.pos_embedding_at == "stem":
      return tokens, None
    tables = jnp.broadcast_to(tables, (self.depth, *tables.shape[1:]))
    # The first layer's stands at the stem, before the dropout.
    return tokens, tables.at[0].set(0.0)

  def _relative_keys(self, tokens):
    """[depth, offsets, heads, head size], or None."""
    if self.pos_embedding != "relative":
      return None
    shared = self.pos_embedding_at == "every_layer_shared"
    keys = RelativeKeys(
      self.config.num_heads, 1 if shared else self.depth, name="posembed"
    )(*tokens.shape[1:])
    return jnp.broadcast_to(keys, (self.depth, *keys.shape[1:]))

  def _apply_blocks(self, tokens, per_layer, train):
    """`depth` blocks, each with its slice of `per_layer`."""
    block = EncoderBlock
    if self.remat != "none":
      # Inside a scan nothing can be merged away, so XLA need not be stopped.
      block = nn.remat(
        block,
        policy=REMAT_POLICIES[self.remat],
        prevent_cse=not self.scan_layers,
      )
    if self.scan_layers:
      layers = nn.scan(
        block,
        variable_axes={"params": 0, "intermediates": 0, ATTENTION_MAPS: 0},
        split_rngs={"params": True, "dropout": True},
        in_axes=0,
        length=self.depth,
      )(self.config, train, name="encoderblock")
      return layers(tokens, *per_layer)[0]
    for i in range(self.depth):
      layer = block(self.config, train, name=f"encoderblock_{i}")
      arguments = (None if x is None else x[i] for x in per_layer)
      tokens, _ = layer(tokens, *arguments)
    return tokens
