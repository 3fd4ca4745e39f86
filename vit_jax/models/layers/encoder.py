"""The encoder: positions, a stack of blocks and the last norm."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from vit_jax.errors import UserError
from vit_jax.models.layers import remat_policies, rope_table, token_places
from vit_jax.models.layers.attention import ATTENTION_MAPS
from vit_jax.models.layers.dropout import Dropout
from vit_jax.models.layers.embeddings import PositionEmbedding, RelativeKeys
from vit_jax.models.layers.encoder_block import (
  BETWEEN_BLOCKS,
  LAYER_TOKENS,
  EncoderBlock,
)
from vit_jax.models.layers.layer_norm import LayerNorm
from vit_jax.models.layers.mlp import LayerConfig
from vit_jax.models.layers.position_add import add_positions
from vit_jax.models.layers.relative_bias import Places, RelativeBias
from vit_jax.models.layers.skipping_groups import of_layers

# Positions that are not added to the tokens.
_BETWEEN_TOKENS = ("none", "relative", "relative_bias")


class Encoder(nn.Module):
  """Positions, dropout, `depth` blocks and a last LayerNorm.

  `add_positions` comes first; calling the module then encodes the tokens. A
  position embedding at every layer is added before each block, for the first
  block at the stem. Relative keys cannot be added at the stem: with 'stem' too,
  they are one table per layer, or one for all layers if shared. The same holds
  for relative biases, whose tables belong to their layers unless they are
  shared.

  Attributes:
    config: Settings of the layers.
    depth: Number of blocks.
    grid: Rows and columns of patches that positions are learned for.
    num_prefix: Tokens before the patches, such as the class token.
    prefix_positions: True if prefix tokens have positions too.
    pos_embedding_stddev: Initial standard deviation of learned positions.
    pos_embedding_init: Initial values of a table of 'learned_1d'.
    norm_dtype: Dtype of the last LayerNorm's result; None to omit the norm.
    num_registers: Number of prefix tokens without positions, the last of
      `num_prefix`.
    rope: True if patches have rotary positions in addition to `pos_embedding`.
    rope_grid: Rows and columns to which those of any grid are scaled, if
      `rope_coordinates` are 'patches', see `rope_table.table`.

  The other attributes are the keys of `config.model` with the same names.
  """

  config: LayerConfig
  depth: int
  grid: tuple[int, int]
  num_prefix: int
  prefix_positions: bool = True
  pos_embedding_stddev: float = 0.02
  pos_embedding_init: str = "normal"
  pos_embedding: str = "learned_1d"
  pos_embedding_at: str = "stem"
  pos_embedding_resize: str = "bilinear"
  stochastic_depth_rate: float = 0.0
  stochastic_depth: str = "linear"
  stochastic_depth_group: int | None = None
  scan_layers: bool = False
  remat: str = "none"
  norm_dtype: str | None = "float32"
  num_registers: int = 0
  rope: bool = False
  rope_grid: int | None = 16
  rope_base: float = 10_000.0
  rope_coordinates: str = "patches"

  def setup(self):
    if self.pos_embedding not in _BETWEEN_TOKENS:
      every_layer = self.pos_embedding_at == "every_layer"
      self.posembed_input = PositionEmbedding(
        self.pos_embedding,
        self.depth if every_layer else 1,
        self.pos_embedding_resize,
        self.pos_embedding_stddev,
        self.pos_embedding_init,
      )

  def add_positions(
    self,
    tokens: Float[Array, "b n d"],
    grid: tuple[int, int] | None = None,
  ) -> Float[Array, "b n d"]:
    """Adds the position embedding of the stem, if there is one.

    Args:
      tokens: Prefix tokens, then patches row by row.
      grid: Rows and columns of the patches; None for those of the module.
    """
    if self.pos_embedding in _BETWEEN_TOKENS:
      return tokens
    tables = self._tables(tokens, grid)
    return add_positions(tokens, tables[0])

  @nn.compact
  def __call__(
    self,
    tokens: Float[Array, "b n d"],
    grid: tuple[int, int] | None = None,
    mask: Bool[Array, "b n"] | Bool[Array, "b n n"] | None = None,
    *,
    train: bool,
    num_read: int | None = None,
    read_at: Int[Array, " b"] | Int[Array, "b r"] | None = None,
  ) -> Float[Array, "b r d"]:
    """Encodes tokens to which positions have been added.

    Args:
      tokens: Any tokens; all tokens of the image, in order, if positions are
        relative, rotary or added at every layer.
      grid: Rows and columns of the patches, if positions are relative, rotary
        or added at every layer; None for those of the module.
      mask: True for the tokens to attend to, shared by all tokens or separate
        for each; None for all tokens.
      train: True to apply dropout and stochastic depth.
      num_read: Number of leading tokens that the caller reads; None for all.
        The last layer computes queries and MLP for these only.
      read_at: Place of the single token that the caller reads in each example,
        instead of `num_read`, for layers without positions or stochastic depth;
        or the places of several tokens, [b, r]: the last layer then computes
        its attention for all tokens and its MLP for these.

    Returns:
      The tokens of the last layer, normalised unless `norm_dtype` is None:
      those at `read_at`, or at least the first `num_read`.

    Raises:
      UserError: Positions in the layers do not fit the number of tokens.
    """
    dropout = Dropout(self.config.dropout_rate, deterministic=not train)
    tokens = dropout(tokens)
    tokens = nn.with_logical_constraint(tokens, BETWEEN_BLOCKS)
    self.sow("intermediates", "embedded", tokens)

    drop_rates = None
    if train and self.stochastic_depth_rate:
      rate = self.stochastic_depth_rate
      first = rate if self.stochastic_depth == "constant" else 0.0
      drop_rates = jnp.linspace(first, rate, self.depth)
    posembs = self._layer_positions(tokens, grid)
    per_layer = (posembs, self._relative_keys(tokens, grid), drop_rates)
    places, bias = self._relative_bias(tokens, grid)
    for_all = (mask, self._turns(tokens, grid), bias)
    read = (None, None) if self._reads_all() else (num_read, read_at)
    tokens = self._apply_blocks(
      tokens, per_layer, for_all, train, places, *read
    )
    if read_at is not None and self._reads_all():
      one = read_at.ndim == 1
      take = token_places.take_one if one else token_places.take
      tokens = take(tokens, read_at)
    if self.norm_dtype is None:
      return tokens
    norm = LayerNorm(
      self.config.layer_norm_eps, self.norm_dtype, name="encoder_norm"
    )
    return norm(tokens)

  def _reads_all(self):
    """Tells whether the last layer must compute all tokens, read or not."""
    collections = ("intermediates", ATTENTION_MAPS)
    return (
      self.scan_layers
      or self.pos_embedding == "relative"
      or any(map(self.is_mutable_collection, collections))
    )

  def _tables(self, tokens, grid):
    with_rows = self.num_prefix - self.num_registers
    with_rows = with_rows if self.prefix_positions else 0
    tables = self.posembed_input(self.grid, tokens.shape[-1], with_rows, grid)
    if with_rows == self.num_prefix:
      return tables
    rows, patches = jnp.split(tables, [with_rows], axis=1)
    shape = (len(tables), self.num_prefix - with_rows, tables.shape[-1])
    zeros = jnp.zeros(shape, tables.dtype)
    return jnp.concatenate([rows, zeros, patches], axis=1)

  def _layer_positions(self, tokens, grid):
    """Positions added before each block, [depth, n, d], or None."""
    is_table = self.pos_embedding not in _BETWEEN_TOKENS
    if not is_table or self.pos_embedding_at == "stem":
      return None
    tables = self._tables(tokens, grid)
    self._check_length(tokens, tables.shape[1])
    tables = jnp.broadcast_to(tables, (self.depth, *tables.shape[1:]))
    # That of the first layer is added at the stem, before the dropout.
    return tables.at[0].set(0.0)

  def _relative_keys(self, tokens, grid):
    """[depth, offsets, heads, head size], or None."""
    if self.pos_embedding != "relative":
      return None
    learned, wanted = (
      rows * columns + self.num_prefix
      for rows, columns in (self.grid, grid or self.grid)
    )
    self._check_length(tokens, wanted)
    shared = self.pos_embedding_at == "every_layer_shared"
    keys = RelativeKeys(
      self.config.num_heads,
      1 if shared else self.depth,
      self.pos_embedding_resize,
      self.pos_embedding_stddev,
      name="posembed",
    )(learned, tokens.shape[-1], wanted)
    return jnp.broadcast_to(keys, (self.depth, *keys.shape[1:]))

  def _check_length(self, tokens, wanted):
    if tokens.shape[1] != wanted:
      raise UserError(
        f"config.model.pos_embedding = '{self.pos_embedding}' at"
        f" '{self.pos_embedding_at}' gives positions to {wanted} tokens in"
        f" every layer, but there are {tokens.shape[1]}; use"
        " config.model.pos_embedding='learned_1d' with"
        " config.model.pos_embedding_at='stem'."
      )

  def _turns(self, tokens, grid):
    """Rotary positions of all tokens, constant in the program, or None."""
    if not self.rope:
      return None
    rows, columns = grid or self.grid
    wanted = rows * columns + self.num_prefix
    if tokens.shape[1] != wanted:
      raise UserError(
        f"config.model.rope = True turns the {wanted} tokens of an image in"
        f" every layer by their places, but there are {tokens.shape[1]}; use"
        " config.model.rope=False, or an objective that keeps all tokens."
      )
    head_size = tokens.shape[-1] // self.config.num_heads
    return jnp.asarray(
      rope_table.table(
        (rows, columns),
        head_size,
        reference=self.rope_grid,
        num_prefix=self.num_prefix,
        base=self.rope_base,
        coordinates=self.rope_coordinates,
      )
    )

  def _relative_bias(self, tokens, grid):
    """Grids for the layers' tables of biases, and biases shared by layers."""
    if self.pos_embedding != "relative_bias":
      return None, None
    rows, columns = wanted = grid or self.grid
    self._check_length(tokens, rows * columns + self.num_prefix)
    places = Places(self.grid, wanted, self.pos_embedding_resize)
    if self.pos_embedding_at != "every_layer_shared":
      return places, None
    module = RelativeBias(self.config.num_heads, places, name="relative_bias")
    return None, module()

  def _apply_blocks(
    self, tokens, per_layer, for_all, train, places, num_read, read_at
  ):
    """Applies `depth` blocks, each with its slice of `per_layer`."""
    block = EncoderBlock
    if self.remat != "none":
      # Inside a scan XLA cannot merge the computations, so it need not be
      # prevented.
      block = nn.remat(
        block,
        policy=remat_policies.OF_BLOCKS[self.remat],
        prevent_cse=not self.scan_layers,
      )
    groups = of_layers(
      self.stochastic_depth_rate,
      self.stochastic_depth,
      self.depth,
      self.stochastic_depth_group,
    )
    if self.scan_layers:
      layers = nn.scan(
        block,
        variable_axes=dict.fromkeys(
          ("params", "intermediates", ATTENTION_MAPS, LAYER_TOKENS), 0
        ),
        split_rngs={"params": True, "dropout": True},
        in_axes=(0, 0, 0, nn.broadcast, nn.broadcast, nn.broadcast),
        length=self.depth,
      )(self.config, train, *groups[-1:], places=places, name="encoderblock")
      return layers(tokens, *per_layer, *for_all)[0]
    for i in range(self.depth):
      is_last = i == self.depth - 1
      layer = block(
        self.config,
        train,
        groups[i],
        places,
        num_read if is_last else None,
        name=f"encoderblock_{i}",
      )
      arguments = (None if x is None else x[i] for x in per_layer)
      tokens, _ = layer(
        tokens, *arguments, *for_all, read_at if is_last else None
      )
    return tokens
