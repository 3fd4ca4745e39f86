"""Keys of `config.model` that Vision Transformers add."""

from typing import Literal

from vit_jax.config.schema import (
  Fraction,
  Layers,
  Model,
  NonNegativeInt,
  Positive,
  Size,
  key,
)


class ViTModel(Model):
  """A Vision Transformer, or a hybrid with a convolutional stem."""

  width: Size | None = key(
    None,
    "Token width D; None: the variant's.",
  )
  depth: Layers | None = key(None, "Layers; None: the variant's.")
  num_heads: Size | None = key(None, "Heads; None: the variant's.")
  mlp_dim: Size | None = key(None, "MLP width; None: the variant's.")
  stem_blocks: tuple[Layers, ...] | None = key(
    None,
    "Residual units in each stage of a hybrid's stem, before patches are cut;"
    " (): its root only; None: the variant's, none for 'B/16'. The number in"
    " the variant remains the total stride in pixels. [P] B.4",
  )
  stem_width: Size = key(
    64, "Channels of the stem's root; 64 is width factor 1. [VT]"
  )
  standardization: Literal["google", "torch"] = key(
    "google",
    "Epsilon added to the variances of kernels and of channel groups, in"
    " ResNets and stems. google: the values of [VT] and BiT; torch: those of"
    " timm and Hugging Face, whose logits differ by about 1e-4.",
  )
  drop_remainder: bool = key(
    False,
    "Drop the pixels that do not fill a patch, as the published H/14 at"
    " 384 px does.",
  )
  pool: Literal["cls", "gap", "cls_gap", "map", "none"] = key(
    "cls",
    "Pooling of the tokens into one feature. [P] equation 4, appendix D.3."
    " 'cls_gap' joins the class token and the mean of the patches, as DINOv2's"
    " classifiers do.",
  )
  cls_token: bool | None = key(
    None,
    "Add a learned class token to the patches; None: only if pool is 'cls' or"
    " 'cls_gap'."
    " With pool 'gap' it takes part in the layers but not in the mean, as in"
    " the averaging models of timm and MAE.",
  )
  registers: NonNegativeInt = key(
    0,
    "Number of learned tokens without positions, after the class token, that"
    " take part in the layers but in no pooling, arXiv 2309.16588. 4 in [DV2]"
    " with registers.",
  )
  distillation: Literal["none", "token", "average"] = key(
    "none",
    "Second learned token, after the class token, that learns from a teacher."
    " 'average': with its own head; predictions are the mean of both heads"
    " [DeiT]. 'token': without a head, as in Hugging Face's"
    " DeiTForImageClassification.",
  )
  norm_after_pool: bool = key(
    False,
    "Apply the last LayerNorm after the pooling instead of before it, as in"
    " timm's fc_norm and MAE's fine-tuned models.",
  )
  representation_size: Size | Literal["width"] | None = key(
    None,
    "Hidden units of the tanh pre-training head; 'width': as in the paper;"
    " None: a single linear layer. [P] section 3.1.",
  )
  pos_embedding: Literal[
    "none",
    "learned_1d",
    "learned_2d",
    "relative",
    "relative_bias",
    "sincos2d",
  ] = key(
    "learned_1d",
    "Position embedding. [P] appendix D.4. relative_bias: a learned bias of"
    " the scores of each head for each offset of rows and columns, arXiv"
    " 2106.08254; one table per layer, or one for all (pos_embedding_at).",
  )
  pos_embedding_stddev: Positive | Literal["width"] = key(
    0.02,
    "Initial standard deviation of learned positions; 'width': 1 /"
    " sqrt(width). 0.02 [VT], 'width' [BV].",
  )
  pos_embedding_init: Literal["normal", "sincos2d"] = key(
    "normal",
    "Initialisation of a 'learned_1d' table: random, or sines and cosines of"
    " column and row, with zeros for prefix tokens, as in [MAE], which keeps"
    " it fixed (optimizer.freeze) until fine-tuning.",
  )
  cls_position: bool = key(
    True,
    "Give the class token its own position [P]; False: it is joined to the"
    " patches after positions are added to them [BV].",
  )
  pos_embedding_at: Literal["stem", "every_layer", "every_layer_shared"] = key(
    "stem", "Place at which it is added. [P] Table 8."
  )
  rope: bool = key(
    False,
    "Rotary positions in addition to `pos_embedding`: queries and keys of"
    " patches are rotated by angles of row and column, arXiv 2104.09864, as"
    " in [EVA] and [DV3].",
  )
  rope_grid: Size | None = key(
    16,
    "Patches per side to which the rotary positions of any grid are scaled,"
    " so that larger images have finer steps; None: steps of one patch for"
    " any grid. 16 [EVA].",
  )
  rope_base: Positive = key(
    10_000.0,
    "Base of the powers that slow the rotation from one pair of units to the"
    " next. 10000 [EVA], 100 [DV3].",
  )
  rope_coordinates: Literal["patches", "unit"] = key(
    "patches",
    "Rows and columns that rotary positions turn by. patches: their numbers,"
    " scaled to rope_grid [EVA]; unit: centres of patches in an image that"
    " reaches from -1 to 1 along each axis, where 1 is a full turn of the first"
    " pair of units [DV3].",
  )
  dropout_rate: Fraction = key(0.0, "Dropout rate. [P] Table 3.")
  stochastic_depth_rate: Fraction = key(
    0.0,
    "Drop rate of the last layer; the rates grow linearly from 0 at the first.",
  )
  stochastic_depth: Literal["linear", "constant"] = key(
    "linear",
    "linear: the rate grows over the layers; constant: all layers have that"
    " of the last [DeiT3].",
  )
  stochastic_depth_group: Size | None = key(
    None,
    "Number of consecutive examples in the batch of which a fixed fraction,"
    " at rates above 0.1, skips each branch without computing it, as in"
    " [DV2]; each crop of an image is an example. None: every example is"
    " drawn independently, and all are computed.",
  )
  layer_scale: Positive | None = key(
    None,
    "Initial value of LayerScale, a learned factor for every channel of every"
    " branch; None: no such factors. 1e-4 [DeiT3].",
  )
  head_dtype: Literal["float32", "bfloat16"] = key(
    "float32",
    "Dtype of everything after the last layer: norm, pooling, pre_logits and"
    " head. [BV]",
  )
  softmax_dtype: Literal["float32", "bfloat16"] = key(
    "float32", "Dtype of the attention softmax."
  )
  attention: Literal["auto", "xla", "cudnn", "pallas", "flash"] = key(
    "auto",
    "Attention implementation. auto: cudnn on NVIDIA GPUs from Ampere on, in"
    " bfloat16, if it supports the positions and heads, else xla; a resumed"
    " run keeps its first choice. xla: plain products, on any device; cudnn:"
    " NVIDIA GPUs; pallas: TPUs, up to a few hundred tokens; flash: TPUs and"
    " NVIDIA GPUs, any number of tokens. cudnn, and flash on GPUs, compute in"
    " bfloat16.",
  )
  scan_layers: bool = key(
    False,
    "Compile one layer and scan over it: faster compilation, slower steps.",
  )
  gelu: Literal["tanh", "exact", "quick"] = key(
    "tanh",
    "GELU form. [VT] [BV]: tanh; 'quick' is x sigmoid(1.702 x) [CLIP].",
  )
  layer_norm_eps: Positive = key(1e-6, "Epsilon of the LayerNorms. [VT] [BV]")
  mlp: Literal["gelu", "swiglu"] = key(
    "gelu",
    "Hidden layer of the MLPs: a GELU [P], or the product of a second layer"
    " and the SiLU of the first, arXiv 2002.05202, as in [DV2] and [EVA].",
  )
  mlp_norm: bool = key(
    False, "Add a LayerNorm of the hidden units of the MLPs, as in [EVA]."
  )
  qkv_bias: bool = key(True, "Bias in the query, key and value projections.")
  key_bias: bool = key(
    True,
    "Include a bias of the keys, which affects only the optimizer and not the"
    " outputs; none in [BEiT] and [EVA].",
  )
  patch_bias: bool = key(True, "Bias of the patch embedding; none in [CLIP].")
  weight_init: Literal["vit", "deit", "dinov2", "clip"] = key(
    "vit",
    "Initialisation of the parameters. vit: matrices Xavier-uniform, head and"
    " class token zero [VT] [BV]. deit: matrices, head and tokens from N(0,"
    " 0.02^2), the patch embedding as PyTorch's convolutions, in [DeiT],"
    " [DeiT3] and [DINO]. dinov2: the same with tokens from N(0, 1e-6^2)"
    " [DV2]. clip: all as PyTorch's layers, the class token from N(0, 1 /"
    " width) [CLIP]. The objectives mae, beit and feature_prediction have"
    " their own initialisation.",
  )
  pre_norm: bool = key(
    False, "Add a LayerNorm of the tokens before the first layer, as in [CLIP]."
  )
