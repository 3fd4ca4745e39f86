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
    "Residual units of each stage of a hybrid's stem, before patches are cut;"
    " (): its root alone; None: the variant's, none for 'B/16'. The variant's"
    " number stays the total stride in pixels. [P] B.4",
  )
  stem_width: Size = key(
    64, "Channels of the stem's root; 64 is width factor 1. [VT]"
  )
  standardization: Literal["google", "torch"] = key(
    "google",
    "What is added to variances of kernels and of groups of channels, in"
    " ResNets and stems: the numbers of [VT] and BiT, or those of timm and"
    " Hugging Face, whose logits differ by about 1e-4.",
  )
  drop_remainder: bool = key(
    False,
    "Drop the pixels that do not fill a patch, as the published H/14 at"
    " 384 px does.",
  )
  pool: Literal["cls", "gap", "map", "none"] = key(
    "cls", "How tokens become one feature. [P] equation 4, appendix D.3."
  )
  cls_token: bool | None = key(
    None,
    "Whether a learned token is joined to the patches; None: where pool is"
    " 'cls'. With pool 'gap' it takes part in the layers but not in the mean,"
    " as timm's and MAE's averaging models have it.",
  )
  registers: NonNegativeInt = key(
    0,
    "Learned tokens without positions, after the class token, that take part in"
    " the layers and that no pooling sees, arXiv 2309.16588. 4 in [DV2] with"
    " registers.",
  )
  distillation: Literal["none", "token", "average"] = key(
    "none",
    "A second learned token, after the class token, that learns from a teacher."
    " 'average': with a head of its own; predictions are the mean of both"
    " heads [DeiT]. 'token': without, as Hugging Face's"
    " DeiTForImageClassification has it.",
  )
  norm_after_pool: bool = key(
    False,
    "The last LayerNorm stands after the pooling in place of before it, as"
    " timm's fc_norm and MAE's fine-tuned models have it.",
  )
  representation_size: Size | Literal["width"] | None = key(
    None,
    "Hidden units of the tanh pre-training head; 'width' is the paper's,"
    " None a single linear layer. [P] section 3.1.",
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
    " each head's scores for each offset of rows and columns, arXiv 2106.08254;"
    " a table in every layer, or one for all (pos_embedding_at).",
  )
  pos_embedding_stddev: Positive | Literal["width"] = key(
    0.02,
    "Standard deviation that learned positions start with; 'width': 1 /"
    " sqrt(width). 0.02 [VT], 'width' [BV].",
  )
  pos_embedding_init: Literal["normal", "sincos2d"] = key(
    "normal",
    "How a table of 'learned_1d' starts: at random, or at sines and cosines of"
    " column and row, with zeros for prefix tokens, as [MAE], which keeps them"
    " so (optimizer.freeze) until it is fine-tuned.",
  )
  cls_position: bool = key(
    True,
    "The class token has a position of its own [P]; False: it is joined to"
    " patches that have theirs [BV].",
  )
  pos_embedding_at: Literal["stem", "every_layer", "every_layer_shared"] = key(
    "stem", "Where it is added. [P] Table 8."
  )
  rope: bool = key(
    False,
    "Rotary positions beside `pos_embedding`: queries and keys of patches turn"
    " by angles of row and column, arXiv 2104.09864, as in [EVA].",
  )
  rope_grid: Size | None = key(
    16,
    "Patches along a side that rotary positions of any grid are scaled to, so"
    " that larger images have finer steps; None: steps of one patch in all."
    " 16 [EVA].",
  )
  dropout_rate: Fraction = key(0.0, "Dropout. [P] Table 3.")
  stochastic_depth_rate: Fraction = key(
    0.0, "Rate of the last layer, growing linearly from 0 at the first."
  )
  stochastic_depth: Literal["linear", "constant"] = key(
    "linear",
    "Whether the rate grows over the layers or is that of the last in all."
    " constant [DeiT3].",
  )
  stochastic_depth_group: Size | None = key(
    None,
    "Examples that follow one another in the batch, of which a fixed share, at"
    " rates above 0.1, skips each branch and is not computed, as in [DV2]; the"
    " crops of an image are examples. None: every example is drawn by itself,"
    " and all are computed.",
  )
  layer_scale: Positive | None = key(
    None,
    "Value at which a learned factor of every channel of every branch starts;"
    " None: no such factors. 1e-4 [DeiT3].",
  )
  head_dtype: Literal["float32", "bfloat16"] = key(
    "float32",
    "Dtype of all that comes after the last layer: norm, pooling, pre_logits"
    " and head. [BV]",
  )
  softmax_dtype: Literal["float32", "bfloat16"] = key(
    "float32", "Dtype of the attention softmax."
  )
  attention: Literal["auto", "xla", "cudnn", "pallas", "flash"] = key(
    "auto",
    "Attention implementation. auto: cudnn on NVIDIA GPUs from Ampere on, in"
    " bfloat16, if it takes the positions and heads, else xla; a run that"
    " resumes keeps what it began with. xla: plain products, on any device;"
    " cudnn: NVIDIA GPUs; pallas: TPUs, up to a few hundred tokens; flash: TPUs"
    " and NVIDIA GPUs, any number of tokens. cudnn, and flash on GPUs, compute"
    " in bfloat16.",
  )
  scan_layers: bool = key(
    False, "Compile one layer and scan: quick compilation, slower steps."
  )
  gelu: Literal["tanh", "exact", "quick"] = key(
    "tanh",
    "GELU form. [VT] [BV]: tanh; 'quick' is x sigmoid(1.702 x) [CLIP].",
  )
  layer_norm_eps: Positive = key(1e-6, "[VT] [BV]")
  mlp: Literal["gelu", "swiglu"] = key(
    "gelu",
    "Hidden layer of the MLPs: a GELU [P], or the product of a second layer and"
    " the SiLU of the first, arXiv 2002.05202, as in [DV2] and [EVA].",
  )
  mlp_norm: bool = key(
    False, "A LayerNorm of the hidden units of the MLPs, as in [EVA]."
  )
  qkv_bias: bool = key(True, "Bias in the query, key and value projections.")
  key_bias: bool = key(
    True,
    "Whether that of the keys is among them; it changes no result but what the"
    " optimizer does, and [BEiT] and [EVA] have none.",
  )
  patch_bias: bool = key(
    True, "Bias of the embedding of patches; none in [CLIP]."
  )
  weight_init: Literal["vit", "deit", "dinov2", "clip"] = key(
    "vit",
    "How parameters start. vit: matrices Xavier-uniform, head and class token"
    " zero [VT] [BV]. deit: matrices, head and tokens at N(0, 0.02^2), the"
    " embedding of patches as PyTorch's convolutions, in [DeiT], [DeiT3] and"
    " [DINO]. dinov2: the same with tokens at N(0, 1e-6^2) [DV2]. clip: all as"
    " PyTorch's layers, the class token at N(0, 1 / width) [CLIP]. Objectives"
    " mae, beit and feature_prediction have starts of their own.",
  )
  pre_norm: bool = key(
    False, "A LayerNorm of the tokens before the first layer, as in [CLIP]."
  )
