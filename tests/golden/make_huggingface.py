"""Makes the small checkpoints of this folder, with Hugging Face's and timm's
own classes.

Each folder holds a tiny model with random parameters as the library saves it,
and `expected.npz`: `images`, uint8 [b, h, w, 3], and `outputs`, float32, what
the library makes of them; some have another pair for a larger image. Most
parameters are kept in half precision, which is exact for the values that they
have; `tests/test_tracked_files.py` bounds the sizes. The tests need the folders
only. To make them again, with torch 2.13.0, transformers
5.23.0 and timm 1.0.31:

  pip install torch transformers timm
  python tests/golden/make_huggingface.py
"""

import copy
import functools
import gzip
import json
import pathlib
import shutil

import numpy as np
import timm
import torch
import transformers
from safetensors.torch import save_file
from timm.layers import StdConv2d, StdConv2dSame
from timm.models import (
  deit,
  resnetv2,
  vision_transformer,
  vision_transformer_hybrid,
)

HERE = pathlib.Path(__file__).parent
HALVES = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CLIP = (
  (0.48145466, 0.4578275, 0.40821073),
  (0.26862954, 0.26130258, 0.27577711),
)
LABELS = dict(enumerate(("ant", "bee", "cat: a pet", "dog", "eel")))

SIZE = {"size": {"height": 16, "width": 16}}

VIT = dict(
  hidden_size=32,
  num_hidden_layers=2,
  num_attention_heads=4,
  intermediate_size=48,
  image_size=16,
  patch_size=4,
)
TIMM_VIT = dict(
  img_size=16,
  patch_size=4,
  embed_dim=32,
  depth=2,
  num_heads=4,
  mlp_ratio=1.5,
  num_classes=5,
)


def randomize(
  model: torch.nn.Module,
  seed: int,
  dtype: torch.dtype = torch.float16,
  bits: int | None = None,
) -> None:
  """Gives every parameter a value that the output depends on.

  Args:
    model: changed in place.
    seed: of the values.
    dtype: the values can be saved in it without a change.
    bits: Significant bits of a value, so that files can be compressed; None
      leaves all of them.
  """
  generator = torch.Generator().manual_seed(seed)
  convolutions = {
    f"{name}.weight"
    for name, module in model.named_modules()
    if type(module).__name__ in ("WeightStandardizedConv2d", "StdConv2d")
    or type(module).__name__ == "StdConv2dSame"
  }
  with torch.no_grad():
    for name, parameter in sorted(model.named_parameters()):
      value = torch.randn(parameter.shape, generator=generator)
      if name in convolutions:
        # Small and uneven, so that what is added to the deviation matters.
        scale = torch.rand(len(value), 1, 1, 1, generator=generator)
        value = value * 10 ** (-3 + scale) + 1e-3
      elif parameter.ndim > 1 and name.endswith("weight"):
        value = value / parameter[0].numel() ** 0.5
      elif name.endswith(("weight", "gamma")):
        value = 1 + 0.3 * value
      else:
        value = 0.3 * value
      if bits is not None:
        mantissa, exponent = torch.frexp(value)
        value = torch.ldexp((mantissa * 2**bits).round() / 2**bits, exponent)
      parameter.copy_(value.to(dtype))
  model.eval()


def stored(
  model: torch.nn.Module, dtype: torch.dtype = torch.float16
) -> dict[str, torch.Tensor]:
  """The tensors of a network, its floats in the type that they are saved in."""
  return {
    name: (x.to(dtype) if x.is_floating_point() else x).contiguous()
    for name, x in model.state_dict().items()
  }


def compress(folder: pathlib.Path) -> None:
  """Leaves model.safetensors.gz in place of model.safetensors."""
  path = folder / "model.safetensors"
  packed = gzip.compress(path.read_bytes(), mtime=0)
  path.with_name(f"{path.name}.gz").write_bytes(packed)
  path.unlink()


def pixels(images: np.ndarray, statistics) -> torch.Tensor:
  """uint8 [b, h, w, 3] as the libraries' preprocessors pass them on."""
  mean, deviation = (np.float32(x) for x in statistics)
  values = (images.astype(np.float32) / 255 - mean) / deviation
  return torch.from_numpy(values.transpose(0, 3, 1, 2).copy())


def save_expected(folder: pathlib.Path, statistics, functions) -> None:
  """Writes expected.npz.

  Args:
    folder: where to.
    statistics: mean and deviation of pixels in [0, 1].
    functions: image size -> function of the pixels that gives the outputs; the
      first is for the size that the model says.
  """
  arrays = {}
  for number, (size, function) in enumerate(functions.items()):
    generator = np.random.default_rng(size)
    # 16 levels, which are half as large when compressed.
    images = generator.integers(0, 16, (2, size, size, 3), np.uint8) * 17
    with torch.no_grad():
      outputs = function(pixels(images, statistics))
    suffix = f"_{size}" if number else ""
    arrays[f"images{suffix}"] = images
    arrays[f"outputs{suffix}"] = outputs.numpy().astype(np.float32)
  np.savez_compressed(folder / "expected.npz", **arrays)


def write_json(path: pathlib.Path, value) -> None:
  path.write_text(json.dumps(value, indent=2) + "\n")


def fresh(name: str) -> pathlib.Path:
  folder = HERE / name
  shutil.rmtree(folder, ignore_errors=True)
  folder.mkdir()
  return folder


def save_huggingface(
  name: str,
  model,
  statistics,
  functions,
  *,
  processor=None,
  dtype: torch.dtype = torch.float16,
  **options,
) -> None:
  """Writes a folder of Hugging Face's.

  Args:
    name: of the folder.
    model: has the parameters.
    statistics: see `save_expected`.
    functions: see `save_expected`.
    processor: more for preprocessor_config.json; None: no such file.
    dtype: that the parameters are saved in.
    **options: of `save_pretrained`.
  """
  folder = fresh(name)
  copy.deepcopy(model).to(dtype).save_pretrained(folder, **options)
  if processor is not None:
    mean, deviation = statistics
    settings = {"do_normalize": True, "image_mean": mean}
    settings |= {"image_std": deviation, "do_resize": True}
    write_json(folder / "preprocessor_config.json", settings | processor)
  save_expected(folder, statistics, functions)


def make_vit() -> None:
  config = transformers.ViTConfig(**VIT, id2label=LABELS, layer_norm_eps=1e-6)
  model = transformers.ViTForImageClassification(config)
  randomize(model, 1, torch.float32)
  functions = {
    16: lambda x: model(x).logits,
    24: lambda x: model(x, interpolate_pos_encoding=True).logits,
  }
  size = {"size": {"height": 16, "width": 16}, "rescale_factor": 1 / 255}
  processor = {"do_rescale": True, "resample": 2, **size}
  save_huggingface(
    "huggingface_vit",
    model,
    HALVES,
    functions,
    processor=processor,
    dtype=torch.float32,
  )


def make_vit_without_bias() -> None:
  """Exact GELU, eps 1e-12, no bias of queries, keys and values."""
  config = transformers.ViTConfig(**VIT, num_labels=3, qkv_bias=False)
  assert (config.hidden_act, config.layer_norm_eps) == ("gelu", 1e-12)
  model = transformers.ViTForImageClassification(config)
  randomize(model, 2)
  save_huggingface(
    "huggingface_vit_without_bias",
    model,
    CLIP,
    {16: lambda x: model(x).logits},
    processor={"size": 16},
  )


def make_pooler() -> None:
  config = transformers.ViTConfig(
    **VIT, hidden_act="gelu_pytorch_tanh", pooler_output_size=24
  )
  model = transformers.ViTModel(config)
  randomize(model, 3)
  save_huggingface(
    "huggingface_vit_pooler",
    model,
    HALVES,
    {16: lambda x: model(x).pooler_output},
  )


def make_deit() -> None:
  """As facebook/deit-tiny-patch16-224: a ViT with ImageNet's statistics."""
  config = transformers.ViTConfig(**VIT, id2label=LABELS)
  model = transformers.ViTForImageClassification(config)
  randomize(model, 4)
  save_huggingface(
    "huggingface_deit",
    model,
    IMAGENET,
    {16: lambda x: model(x).logits},
    processor={"do_center_crop": True, "size": 18, "crop_size": 16},
  )


def make_distilled() -> None:
  """A second token that the head does not see."""
  tiny = VIT | dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1)
  config = transformers.DeiTConfig(**tiny, num_labels=3)
  model = transformers.DeiTForImageClassification(config)
  randomize(model, 5)
  save_huggingface(
    "huggingface_deit_distilled",
    model,
    IMAGENET,
    {16: lambda x: model(x).logits},
    processor=SIZE,
  )


def make_teacher() -> None:
  """Class and distillation token, each with a head; their mean."""
  config = transformers.DeiTConfig(**VIT, id2label=LABELS)
  model = transformers.DeiTForImageClassificationWithTeacher(config)
  randomize(model, 20)
  functions = {
    16: lambda x: model(x).logits,
    24: lambda x: model(x, interpolate_pos_encoding=True).logits,
  }
  save_huggingface(
    "huggingface_deit_teacher", model, IMAGENET, functions, processor=SIZE
  )


def make_mae() -> None:
  """In shards; nothing masked, patches in their order."""
  config = transformers.ViTMAEConfig(
    **VIT,
    mask_ratio=0.0,
    decoder_hidden_size=8,
    decoder_intermediate_size=8,
    decoder_num_hidden_layers=1,
    decoder_num_attention_heads=2,
  )
  model = transformers.ViTMAEForPreTraining(config)
  table = model.vit.embeddings.position_embeddings.detach().clone()
  randomize(model, 6)
  with torch.no_grad():
    model.vit.embeddings.position_embeddings.copy_(table)
  noise = torch.arange(16.0)[None].tile(2, 1)
  save_huggingface(
    "huggingface_mae",
    model,
    IMAGENET,
    {16: lambda x: model.vit(x, noise=noise).last_hidden_state[:, 0]},
    processor={"size": {"height": 16, "width": 16}},
    dtype=torch.float32,
    max_shard_size="40KB",
  )


def make_bit() -> None:
  config = transformers.BitConfig(
    embedding_size=32, hidden_sizes=[128, 256], depths=[1, 1], id2label=LABELS
  )
  model = transformers.BitForImageClassification(config)
  randomize(model, 7, torch.bfloat16, bits=3)
  save_huggingface(
    "huggingface_bit",
    model,
    HALVES,
    {34: lambda x: model(x).logits},
    processor={
      "do_center_crop": True,
      "crop_size": {"height": 34, "width": 34},
      "size": {"shortest_edge": 36},
    },
    dtype=torch.bfloat16,
  )
  compress(HERE / "huggingface_bit")


def save_timm(
  name: str,
  model,
  statistics,
  functions,
  architecture: str | None,
  *,
  dtype: torch.dtype = torch.float16,
  **more,
) -> None:
  """Writes a folder of timm's, as its `save_for_hf` does.

  Args:
    name: of the folder.
    model: has the parameters.
    statistics: see `save_expected`.
    functions: see `save_expected`; or the size of the images.
    architecture: for config.json; None: no such file.
    dtype: that the parameters are saved in.
    **more: for config.json.
  """
  folder = fresh(name)
  if isinstance(functions, int):
    functions = {functions: model}
  size = next(iter(functions))
  save_expected(folder, statistics, functions)
  tensors = stored(model, dtype)
  save_file(tensors, folder / "model.safetensors", {"format": "pt"})
  if architecture is None:
    return
  mean, deviation = statistics
  settings = {
    "input_size": [3, size, size],
    "interpolation": "bicubic",
    "crop_pct": 0.9,
    "mean": mean,
    "std": deviation,
    "num_classes": model.num_classes,
  }
  config = {
    "architecture": architecture,
    "num_classes": model.num_classes,
    "num_features": model.num_features,
    "pretrained_cfg": settings,
  }
  write_json(folder / "config.json", config | more)


def make_timm_vit() -> None:
  model = timm.create_model("vit_tiny_patch16_224", **TIMM_VIT)
  randomize(model, 11, torch.float32)
  larger = copy.deepcopy(model)
  larger.set_input_size(img_size=24)
  save_timm(
    "timm_vit",
    model,
    HALVES,
    {16: model, 24: larger},
    "vit_tiny_patch16_224",
    dtype=torch.float32,
    global_pool="token",
    model_args=TIMM_VIT,
    label_names=list(LABELS.values()),
  )


def make_timm_alone() -> None:
  """A lone file: heads of 64; no row of the table for the class token."""
  sizes = TIMM_VIT | dict(embed_dim=64, num_heads=1, depth=1, mlp_ratio=1)
  model = vision_transformer.VisionTransformer(
    **sizes, no_embed_class=True, init_values=1.0
  )
  randomize(model, 12, torch.bfloat16)
  save_timm("timm_vit_alone", model, HALVES, 16, None, dtype=torch.bfloat16)


def make_timm_distilled() -> None:
  """Class and distillation token, each with a head; their mean."""
  model = deit.VisionTransformerDistilled(**TIMM_VIT | dict(depth=1))
  randomize(model, 18)
  larger = copy.deepcopy(model)
  larger.set_input_size(img_size=24)
  save_timm(
    "timm_deit_distilled",
    model,
    IMAGENET,
    {16: model, 24: larger},
    "deit_tiny_distilled_patch16_224",
    model_args=TIMM_VIT | dict(depth=1),
  )


def make_timm_deit3() -> None:
  """LayerScale, and no position for the class token."""
  sizes = TIMM_VIT | dict(no_embed_class=True, init_values=1e-4)
  model = vision_transformer.VisionTransformer(**sizes)
  randomize(model, 19)
  larger = copy.deepcopy(model)
  larger.set_input_size(img_size=24)
  save_timm(
    "timm_deit3",
    model,
    IMAGENET,
    {16: model, 24: larger},
    "deit3_small_patch16_224",
    model_args=sizes,
  )


def make_timm_gap() -> None:
  """Averaged patches and fc_norm, with a class token, as MAE fine-tunes."""
  sizes = TIMM_VIT | dict(depth=1)
  model = vision_transformer.VisionTransformer(
    **sizes, global_pool="avg", qkv_bias=False
  )
  randomize(model, 13)
  save_timm(
    "timm_vit_gap",
    model,
    IMAGENET,
    16,
    "vit_base_patch16_224",
    global_pool="avg",
    model_args=sizes | dict(global_pool="avg", qkv_bias=False),
  )


def make_timm_map() -> None:
  """As SigLIP's: attention pooling, no class token, GELU by tanh."""
  sizes = TIMM_VIT | dict(depth=1, num_classes=0)
  more = dict(global_pool="map", class_token=False, act_layer="gelu_tanh")
  model = vision_transformer.VisionTransformer(**sizes, **more)
  randomize(model, 14)
  save_timm(
    "timm_vit_map",
    model,
    HALVES,
    16,
    "vit_so400m_patch16_siglip_256",
    global_pool="map",
    model_args=sizes,
  )


def hybrid(backbone, seed: int, bits: int | None = None, **more):
  """A ViT on the maps of a convolutional stem."""
  sizes = TIMM_VIT | dict(depth=1, img_size=32, patch_size=1) | more
  embed = functools.partial(
    vision_transformer_hybrid.HybridEmbed, backbone=backbone
  )
  model = vision_transformer.VisionTransformer(**sizes, embed_layer=embed)
  randomize(model, seed, bits=bits)
  return model


def make_timm_hybrid() -> None:
  """R50+ViT's parts with two stages of one unit, and a root of 32 channels."""
  backbone = resnetv2.ResNetV2(
    layers=(1, 1),
    channels=(128, 256),
    stem_chs=32,
    num_classes=0,
    global_pool="",
    preact=False,
    stem_type="same",
    conv_layer=functools.partial(StdConv2dSame, eps=1e-8),
  )
  model = hybrid(backbone, 15, bits=3)
  name = "timm_hybrid"
  arguments = dict(num_heads=4)
  save_timm(
    name, model, HALVES, 32, "vit_base_r50_s16_224", model_args=arguments
  )
  compress(HERE / name)


def make_timm_root() -> None:
  """R+ViT: patches of the root's maps."""
  backbone = resnetv2.create_resnetv2_stem(
    3,
    32,
    stem_type="same",
    preact=False,
    conv_layer=functools.partial(StdConv2dSame, eps=1e-8),
  )
  model = hybrid(backbone, 16, patch_size=2)
  arguments = dict(num_heads=4)
  save_timm(
    "timm_hybrid_root",
    model,
    HALVES,
    32,
    "vit_tiny_r_s16_p8_224",
    model_args=arguments,
  )


def make_timm_bit() -> None:
  model = resnetv2.ResNetV2(
    layers=(2,),
    channels=(128,),
    stem_chs=32,
    num_classes=5,
    stem_type="fixed",
    conv_layer=functools.partial(StdConv2d, eps=1e-8),
  )
  randomize(model, 17, bits=3)
  save_timm("timm_bit", model, HALVES, 34, "resnetv2_50x1_bit")
  compress(HERE / "timm_bit")


if __name__ == "__main__":
  make_vit()
  make_vit_without_bias()
  make_pooler()
  make_deit()
  make_distilled()
  make_teacher()
  make_mae()
  make_bit()
  make_timm_vit()
  make_timm_alone()
  make_timm_distilled()
  make_timm_deit3()
  make_timm_gap()
  make_timm_map()
  make_timm_hybrid()
  make_timm_root()
  make_timm_bit()
