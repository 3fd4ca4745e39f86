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
  """A Transformer that turns tokens of a text into one feature."""

  variant: str = key(
    "B",
    "Size by the name of a Vision Transformer's: 'B' is the text tower of"
    " SigLIP B and of CLIP L, 'M' that of CLIP B.",
  )
  width: Size | None = key(None, "Token width; None: the variant's.")
  depth: Layers | None = key(None, "Layers; None: the variant's.")
  num_heads: Size | None = key(None, "Heads; None: the variant's.")
  mlp_dim: Size | None = key(None, "MLP width; None: the variant's.")
  vocab_size: Size = key(32_000, "Tokens that have an embedding.")
  length: Size = key(
    64, "Tokens of a text, padded or cut. 64 [SigLIP], 77 [CLIP]."
  )
  causal: bool = key(
    False, "Each token attends to itself and those before it. [CLIP]"
  )
  pool: Literal["last", "eot", "mean", "map"] = key(
    "last",
    "How tokens become one feature: that of the last place [SigLIP], that of"
    " the end-of-text token [CLIP], their mean, or attention.",
  )
  eot_token: NonNegativeInt | None = key(
    None,
    "Id of the end-of-text token, whose first place is taken; None: the place"
    " of the largest id, as the code of [CLIP] does.",
  )
  embedding_stddev: Positive | Literal["width"] = key(
    "width",
    "Standard deviation that embeddings of tokens start with; 'width': 1 /"
    " sqrt(width) [BV]. 0.02 [CLIP].",
  )
  pos_embedding_stddev: Positive | Literal["width"] = key(
    "width", "Likewise of positions. 0.01 [CLIP]."
  )
  weight_init: Literal["vit", "clip"] = key(
    "vit",
    "How matrices start. vit: Xavier-uniform [BV]. clip: at random with"
    " deviations that shrink with width and depth [CLIP].",
  )
  dropout_rate: Fraction = key(0.0, "Dropout.")
  gelu: Literal["tanh", "exact", "quick"] = key(
    "tanh", "GELU form. tanh [BV], quick [CLIP]."
  )
  layer_norm_eps: Positive = key(1e-6, "1e-6 [BV], 1e-5 [CLIP].")
  dtype: Literal["float32", "bfloat16"] | None = key(
    None,
    "Compute dtype of this tower; None: `model.dtype`. [BV] has float32 beside"
    " images in bfloat16.",
  )
  softmax_dtype: Literal["float32", "bfloat16"] = key(
    "float32", "Dtype of the attention softmax."
  )
  scan_layers: bool = key(
    False, "Compile one layer and scan: quick compilation, slower steps."
  )
