"""One layer of the encoder: equations 2 and 3 of the paper."""

import functools

import flax.linen as nn
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, Int

from vit_jax.models.layers import gradient_order, placement, token_places
from vit_jax.models.layers.attention import MultiHeadAttention
from vit_jax.models.layers.dropout import Dropout
from vit_jax.models.layers.layer_norm import LayerNorm
from vit_jax.models.layers.mlp import LayerConfig, MlpBlock
from vit_jax.models.layers.position_add import add_positions
from vit_jax.models.layers.relative_bias import Places, RelativeBias
from vit_jax.models.layers.skipping_groups import Groups
from vit_jax.models.layers.stochastic_depth import add_branch, skip_examples

# Names of the dimensions of the residual stream, which the rules of a mesh
# (`vit_jax.sharding.activations`) assign to its axes.
BETWEEN_BLOCKS = ("batch", "tokens", "width")

# Collection of the residual stream after each layer, for objectives that read
# it in training. Unlike "intermediates", asking for it computes nothing more.
LAYER_TOKENS = "layer_tokens"

# Names for a few tokens, too few to be split.
_READ = ("batch", None, "width")


class EncoderBlock(nn.Module):
  """Pre-norm attention and MLP, each added to its input.

  Attributes:
    config: Settings of the layers.
    train: True to apply dropout and stochastic depth.
    skipping: Groups of examples, a part of which skips a branch; None:
      examples, if any, skip it independently.
    places: Grids of this layer's table of biases; None if it has no table.
    num_read: Number of leading tokens in the layer's result; None for all. Keys
      and values are always computed for all tokens.
  """

  config: LayerConfig
  train: bool
  skipping: Groups | None = None
  places: Places | None = None
  num_read: int | None = None

  @nn.compact
  def __call__(
    self,
    tokens: Float[Array, "b n d"],
    posemb: Float[Array, "n d"] | None,
    relative_keys: Float[Array, "offsets heads k"] | None,
    drop_rate: Float[Array, ""] | None,
    mask: Bool[Array, "b n"] | Bool[Array, "b n n"] | None = None,
    turns: Float[Array, "2 n k"] | None = None,
    bias: Float[Array, "heads n n"] | None = None,
    read_at: Int[Array, " b"] | Int[Array, "b r"] | None = None,
  ) -> tuple[Float[Array, "b r d"], None]:
    """Applies the layer.

    Args:
      tokens: Residual stream.
      posemb: Position embedding, added first.
      relative_keys: Keys of the offsets, see `MultiHeadAttention`.
      drop_rate: Probability that an example skips a branch of this layer.
      mask: True for the tokens to attend to, see `MultiHeadAttention`.
      turns: Rotary positions, see `MultiHeadAttention`.
      bias: Bias of the scores shared by layers, see `MultiHeadAttention`.
      read_at: Places, in each example, of the tokens in the layer's result,
        instead of the first `num_read`. For several places, attention computes
        the queries of all tokens, as its kernels do.

    Returns:
      The tokens that are read, or all tokens, and None: the pair that `nn.scan`
      expects.
    """
    config = self.config
    norm = functools.partial(LayerNorm, config.layer_norm_eps, config.dtype)
    if posemb is not None:
      tokens = add_positions(tokens, posemb)

    reads_all = self.num_read is None and read_at is None
    several = None
    if read_at is not None and read_at.ndim == 2:
      read_at, several = None, read_at
    if not reads_all and several is None and placement.platform() == "tpu":
      # With 192 channels the compiler would arrange all tokens of the network
      # in the order that suits a slice of them (docs/notes/performance.md).
      tokens = gradient_order.fill_lanes(tokens)
    if self.places is not None:
      bias = RelativeBias(config.num_heads, self.places, name="relative_bias")()
    bias = None if bias is None else bias[:, :, : self.num_read]

    def attention(tokens, mask, read_at):
      x = norm(name="LayerNorm_0")(tokens)
      if mask is not None and mask.ndim == 3:
        mask = self._read(mask, read_at)
      x = MultiHeadAttention(config, name="MultiHeadDotProductAttention_0")(
        self._read(x, read_at),
        x,
        relative_keys,
        mask,
        turns,
        bias,
        self._layer_scale("layer_scale_0", x.shape[-1]),
      )
      return Dropout(config.dropout_rate, deterministic=not self.train)(x)

    def mlp(tokens, mask, read_at):
      del mask, read_at
      x = norm(name="LayerNorm_1")(tokens)
      scale = self._layer_scale("layer_scale_1", x.shape[-1])
      return MlpBlock(config, self.train, name="MlpBlock_0")(x, scale)

    tokens = self._added(attention, tokens, drop_rate, mask, read_at)
    if several is not None:
      tokens = token_places.take(tokens, several)
    tokens = checkpoint_name(tokens, "after_attention")
    tokens = self._added(mlp, tokens, drop_rate)
    names = BETWEEN_BLOCKS if reads_all else _READ
    tokens = nn.with_logical_constraint(tokens, names)
    self.sow("intermediates", "tokens", tokens)
    if not self.is_initializing():
      self.sow(LAYER_TOKENS, "tokens", tokens)
    return tokens, None

  def _layer_scale(self, name, width):
    """Returns the factors of LayerScale, [width]; None if there are none."""
    start = self.config.layer_scale
    if start is None:
      return None
    return self.param(name, nn.initializers.constant(start), (width,))

  def _added(self, branch, tokens, drop_rate, mask=None, read_at=None):
    """The tokens plus a branch, which some examples skip."""
    if drop_rate is not None and self.skipping is not None:
      key = self.make_rng("dropout")
      return add_branch(branch, tokens, self.skipping, key, mask, read_at)
    found = branch(tokens, mask, read_at)
    if drop_rate is not None:
      found = skip_examples(found, drop_rate, self.make_rng("dropout"))
    return self._read(tokens, read_at) + found

  def _read(self, array, read_at):
    """Rows of the tokens in the layer's result."""
    if read_at is None:
      return array[:, : self.num_read]
    return token_places.take_one(array, read_at)
