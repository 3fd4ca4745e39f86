"""Keys of `config.model.text`."""

from typing import Literal

from vit_jax.config.schema import (
  Fraction,
  Layers,
  NonNegativeInt,
  Positive,
  Section,
  Size,
  key,
)


class TextModel(Section):
  """A Transformer that turns the tokens of a text into one feature."""

  variant: str = key(
    "B",
    "Size, named as for Vision Transformers: 'B' is the text tower of SigLIP"
    " B and of CLIP L, 'M' that of CLIP B.",
  )
  width: Size | None = key(None, "Token width; None: the variant's.")
  depth: Layers | None = key(None, "Layers; None: the variant's.")
  num_heads: Size | None = key(None, "Heads; None: the variant's.")
  mlp_dim: Size | None = key(None, "MLP width; None: the variant's.")
  vocab_size: Size = key(32_000, "Number of tokens that have an embedding.")
  length: Size = key(
    64, "Tokens per text, padded or truncated. 64 [SigLIP], 77 [CLIP]."
  )
  causal: bool = key(
    False, "Let each token attend only to itself and those before it. [CLIP]"
  )
  pool: Literal["last", "eot", "mean", "map"] = key(
    "last",
    "Pooling of the tokens into one feature: that of the last position"
    " [SigLIP], that of the end-of-text token [CLIP], their mean, or"
    " attention.",
  )
  eot_token: NonNegativeInt | None = key(
    None,
    "Id of the end-of-text token, whose first occurrence is used; None: the"
    " position of the largest id, as in the code of [CLIP].",
  )
  embedding_stddev: Positive | Literal["width"] = key(
    "width",
    "Initial standard deviation of the token embeddings; 'width': 1 /"
    " sqrt(width) [BV]. 0.02 [CLIP].",
  )
  pos_embedding_stddev: Positive | Literal["width"] = key(
    "width",
    "Initial standard deviation of the position embeddings; 'width': 1 /"
    " sqrt(width). 0.01 [CLIP].",
  )
  weight_init: Literal["vit", "clip"] = key(
    "vit",
    "Initialisation of matrices. vit: Xavier-uniform [BV]. clip: random, with"
    " deviations that shrink with width and depth [CLIP].",
  )
  dropout_rate: Fraction = key(0.0, "Dropout rate.")
  gelu: Literal["tanh", "exact", "quick"] = key(
    "tanh", "GELU form. tanh [BV], quick [CLIP]."
  )
  layer_norm_eps: Positive = key(
    1e-6, "Epsilon of the LayerNorms. 1e-6 [BV], 1e-5 [CLIP]."
  )
  dtype: Literal["float32", "bfloat16"] | None = key(
    None,
    "Compute dtype of this tower; None: `model.dtype`. [BV] uses float32 with"
    " images in bfloat16.",
  )
  softmax_dtype: Literal["float32", "bfloat16"] = key(
    "float32", "Dtype of the attention softmax."
  )
  scan_layers: bool = key(
    False,
    "Compile one layer and scan over it: faster compilation, slower steps.",
  )
