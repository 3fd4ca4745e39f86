"""Makes the small CLIP and SigLIP of this folder, as `make_huggingface.py` does
its own, timm's image tower of a CLIP, a CLIP of open_clip 3.3.0, and one as
OpenAI's files are.

`expected.npz` of a two-tower network also holds `text`, int32 [t, n], and
`image_embedding`, `text_embedding` and `logits` in place of `outputs`.

  python tests/golden/make_two_towers.py
"""

import copy

import numpy as np
import open_clip
import timm
import torch
import transformers
from make_huggingface import (
  CLIP,
  HALVES,
  HERE,
  TIMM_VIT,
  fresh,
  pixels,
  randomize,
  save_huggingface,
  save_timm,
  stored,
  write_json,
)
from safetensors.torch import save_file

IMAGE = dict(
  hidden_size=24,
  num_hidden_layers=2,
  num_attention_heads=3,
  intermediate_size=40,
  image_size=16,
  patch_size=4,
)
TEXT = dict(
  hidden_size=16,
  num_hidden_layers=3,
  num_attention_heads=2,
  intermediate_size=36,
  vocab_size=60,
  max_position_embeddings=8,
  bos_token_id=58,
  eos_token_id=59,
  pad_token_id=0,
)
LARGER = 24


def texts() -> np.ndarray:
  """Ids [5, 8] with an end of text at several places, and after it."""
  ids = np.random.default_rng(0).integers(1, 58, (5, 8))
  ids[[0, 1, 2, 3, 4], [7, 3, 2, 5, 1]] = 59
  ids[1, 6] = 59
  return ids.astype(np.int32)


def two_towers(name: str, model, statistics) -> None:
  """A folder huggingface_<name>."""

  def outputs(images, side):
    return model(
      pixel_values=images,
      input_ids=torch.from_numpy(texts()).long(),
      interpolate_pos_encoding=side != IMAGE["image_size"],
    )

  folder = HERE / f"huggingface_{name}"
  sides = (IMAGE["image_size"], LARGER)
  save_huggingface(
    folder.name,
    model,
    statistics,
    {
      side: lambda images, side=side: outputs(images, side).image_embeds
      for side in sides
    },
  )
  with np.load(folder / "expected.npz") as saved:
    arrays = dict(saved)
  with torch.no_grad():
    found = outputs(pixels(arrays["images"], statistics), IMAGE["image_size"])
  arrays["text"] = texts()
  arrays["image_embedding"] = arrays.pop("outputs")
  arrays[f"image_embedding_{LARGER}"] = arrays.pop(f"outputs_{LARGER}")
  arrays["text_embedding"] = found.text_embeds.numpy()
  arrays["logits"] = found.logits_per_image.numpy()
  np.savez(folder / "expected.npz", **arrays)


def clip() -> None:
  model = transformers.CLIPModel(
    transformers.CLIPConfig(
      vision_config=IMAGE, text_config=TEXT, projection_dim=12
    )
  )
  randomize(model, 41)
  two_towers("clip", model, CLIP)


def siglip() -> None:
  # The image tower's feature is the embedding.
  text = dict(TEXT, projection_size=IMAGE["hidden_size"])
  model = transformers.SiglipModel(
    transformers.SiglipConfig(vision_config=IMAGE, text_config=text)
  )
  randomize(model, 42)
  two_towers("siglip", model, HALVES)


def siglip_classifier() -> None:
  model = transformers.SiglipForImageClassification(
    transformers.SiglipConfig(
      vision_config=dict(IMAGE, num_hidden_layers=1),
      text_config=TEXT,
      num_labels=5,
    )
  )
  randomize(model, 46)
  save_huggingface(
    "huggingface_siglip_classifier",
    model,
    HALVES,
    {IMAGE["image_size"]: lambda images: model(pixel_values=images).logits},
  )


def timm_clip() -> None:
  """The image tower of a CLIP with a head, as timm keeps it."""
  architecture = "vit_base_patch16_clip_quickgelu_224"
  model = timm.create_model(architecture, **TIMM_VIT)
  randomize(model, 43)
  save_timm(
    "timm_clip",
    model,
    CLIP,
    {16: model},
    architecture,
    global_pool="token",
    model_args=TIMM_VIT,
  )


def of_open_clip() -> None:
  """A folder open_clip, as open_clip saves it; the texts are those above."""
  config = dict(
    embed_dim=12,
    quick_gelu=True,
    vision_cfg=dict(
      image_size=16, layers=2, width=24, patch_size=4, head_width=8
    ),
    text_cfg=dict(context_length=8, vocab_size=60, width=16, heads=2, layers=3),
  )
  model = open_clip.CLIP(**copy.deepcopy(config))
  randomize(model, 44)
  folder = fresh("open_clip")
  mean, deviation = HALVES
  write_json(
    folder / "open_clip_config.json",
    {
      "model_cfg": config,
      "preprocess_cfg": {"mean": mean, "std": deviation},
    },
  )
  save_file(stored(model), folder / "open_clip_model.safetensors")
  save_expected(model, folder, HALVES)


def save_expected(model, folder, normalization) -> None:
  images = np.random.default_rng(1).integers(0, 256, (2, 16, 16, 3), np.uint8)
  with torch.no_grad():
    image = model.encode_image(pixels(images, normalization), normalize=True)
    text = model.encode_text(torch.from_numpy(texts()).long(), normalize=True)
  np.savez(
    folder / "expected.npz",
    images=images,
    text=texts(),
    image_embedding=image.numpy(),
    text_embedding=text.numpy(),
  )


class Program(torch.nn.Module):
  """A module that keeps the attributes of another one."""

  def __init__(self, module: torch.nn.Module):
    super().__init__()
    for name, parameter in module.named_parameters(recurse=False):
      self.register_parameter(name, torch.nn.Parameter(parameter.data))
    for name, child in module.named_children():
      self.add_module(name, Program(child))

  def forward(self, x):
    return x


def of_openai() -> None:
  """A folder openai with a program of TorchScript, in half precision.

  OpenAI's files keep LayerNorms and embeddings in float32, and have three
  numbers beside the parameters. Heads are 64 wide, or there is one.
  """
  model = open_clip.CLIP(
    embed_dim=12,
    quick_gelu=True,
    vision_cfg=dict(
      image_size=16, layers=2, width=24, patch_size=4, head_width=24
    ),
    text_cfg=dict(context_length=8, vocab_size=60, width=16, heads=1, layers=3),
  )
  randomize(model, 45)
  open_clip.model.convert_weights_to_fp16(model)
  program = Program(model)
  for name, number in (
    ("input_resolution", 16),
    ("context_length", 8),
    ("vocab_size", 60),
  ):
    program.register_buffer(name, torch.tensor(number))
  folder = fresh("openai")
  torch.jit.save(torch.jit.script(program), folder / "openai.pt")
  save_expected(model.float(), folder, CLIP)


if __name__ == "__main__":
  clip()
  siglip()
  siglip_classifier()
  timm_clip()
  of_open_clip()
  of_openai()
