"""Makes the small checkpoints of DINO and DINOv2 in this folder.

`huggingface_dino`, `huggingface_dinov2`, `huggingface_dinov2_registers`,
`huggingface_dinov2_classifier` and `timm_dinov2_registers` are as transformers
and timm save them, with random parameters; see make_huggingface.py. `dino`
holds the authors' own forms: `dino.pth`, a checkpoint of training with teacher
and student, and `dinov2.pth`, the network alone, with SwiGLU. What these
compute at another size is timm's network on positions that torch has resized by
DINO's scale factors.
Made with torch 2.13.0, transformers 5.23.0 and timm 1.0.31:

  pip install torch transformers timm
  python tests/golden/make_dino.py
"""

import copy
import functools

import torch
import transformers
from make_huggingface import (
  IMAGENET,
  LABELS,
  SIZE,
  fresh,
  randomize,
  save_expected,
  save_huggingface,
  save_timm,
)
from timm.layers import SwiGLUPacked
from timm.models import vision_transformer

SIDES = dict(hidden_size=16, num_attention_heads=4, image_size=16, patch_size=4)
TIMM = dict(
  img_size=16, patch_size=4, embed_dim=16, depth=1, num_classes=0, num_heads=1
)
SWIGLU = dict(mlp_layer=SwiGLUPacked, mlp_ratio=2, act_layer=torch.nn.SiLU)


def make_huggingface() -> None:
  config = transformers.ViTConfig(
    **SIDES, num_hidden_layers=1, intermediate_size=16
  )
  model = transformers.ViTModel(config, add_pooling_layer=False)
  randomize(model, 31)
  functions = {
    16: lambda x: model(x).last_hidden_state[:, 0],
    24: lambda x: model(x, interpolate_pos_encoding=True).last_hidden_state[
      :, 0
    ],
  }
  save_huggingface(
    "huggingface_dino", model, IMAGENET, functions, processor=SIZE
  )
  config = transformers.Dinov2Config(**SIDES, num_hidden_layers=1, mlp_ratio=2)
  save_dinov2("huggingface_dinov2", transformers.Dinov2Model(config), 32)
  config = transformers.Dinov2WithRegistersConfig(
    **SIDES,
    num_hidden_layers=1,
    mlp_ratio=2,
    use_swiglu_ffn=True,
    num_register_tokens=3,
  )
  model = transformers.Dinov2WithRegistersModel(config)
  save_dinov2("huggingface_dinov2_registers", model, 33)
  make_classifier()


def make_classifier() -> None:
  """Class token and mean of the patches, which leaves out the registers."""
  config = transformers.Dinov2WithRegistersConfig(
    **SIDES,
    num_hidden_layers=1,
    mlp_ratio=2,
    num_register_tokens=2,
    id2label=LABELS,
  )
  model = transformers.Dinov2WithRegistersForImageClassification(config)
  randomize(model, 38)
  functions = dict.fromkeys((16, 24), lambda x: model(x).logits)
  save_huggingface(
    "huggingface_dinov2_classifier", model, IMAGENET, functions, processor=SIZE
  )


def save_dinov2(name: str, model, seed: int) -> None:
  randomize(model, seed)
  functions = dict.fromkeys((16, 24), lambda x: model(x).pooler_output)
  save_huggingface(name, model, IMAGENET, functions, processor=SIZE)


def make_timm() -> None:
  """Registers, no place of the class token, and SwiGLU as in the giant."""
  keys = TIMM | dict(num_heads=4)
  registers = dict(reg_tokens=2, no_embed_class=True, init_values=1e-5)
  model = vision_transformer.VisionTransformer(**keys, **registers, **SWIGLU)
  randomize(model, 34)
  larger = copy.deepcopy(model)
  larger.set_input_size(img_size=24)
  save_timm(
    "timm_dinov2_registers",
    model,
    IMAGENET,
    {16: model, 24: larger},
    "vit_giant_patch14_reg4_dinov2",
    model_args=keys | registers,
  )


def resized(model, rows: int, columns: int):
  """The network for another grid, its positions resized as by DINO."""
  table = model.pos_embed.data
  maps = table[:, 1:].reshape(1, 4, 4, -1).permute(0, 3, 1, 2)
  maps = torch.nn.functional.interpolate(
    maps, scale_factor=((rows + 0.1) / 4, (columns + 0.1) / 4), mode="bicubic"
  )
  found = copy.deepcopy(model)
  found.set_input_size(img_size=(4 * rows, 4 * columns))
  patches = maps.permute(0, 2, 3, 1).flatten(1, 2)
  found.pos_embed.data = torch.cat([table[:, :1], patches], dim=1)
  return found


def make_original() -> None:
  folder = fresh("dino")
  network = functools.partial(vision_transformer.VisionTransformer, **TIMM)
  teacher, student = (network(mlp_ratio=1) for _ in range(2))
  for number, model in enumerate((teacher, student)):
    randomize(model, 35 + number)
  head = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.GELU())
  last = torch.nn.utils.weight_norm(torch.nn.Linear(8, 4, bias=False))
  heads = {f"head.mlp.{n}": x for n, x in head.state_dict().items()}
  heads |= {f"head.last_layer.{n}": x for n, x in last.state_dict().items()}

  def state(model, start: str):
    found = {f"backbone.{n}": x for n, x in model.state_dict().items()}
    return {f"{start}{name}": x for name, x in (found | heads).items()}

  # Of the student enough to tell it from the teacher.
  names = ("module.backbone.cls_token", "module.backbone.pos_embed")
  students = state(student, "module.")
  contents = {
    "student": {name: students[name] for name in names},
    "teacher": state(teacher, ""),
    "epoch": 1,
    "dino_loss": {"center": torch.zeros(1, 4)},
  }
  torch.save(contents, folder / "dino.pth")
  dinov2 = network(init_values=1e-5, **SWIGLU)
  randomize(dinov2, 37)
  names = {".mlp.fc1.": ".mlp.w12.", ".mlp.fc2.": ".mlp.w3."}
  tensors = {"mask_token": torch.ones(1, 16)}
  for name, tensor in dinov2.state_dict().items():
    for old, new in names.items():
      name = name.replace(old, new)
    tensors[name] = tensor
  torch.save(tensors, folder / "dinov2.pth")
  functions = {16: teacher, 24: resized(teacher, 6, 6)}
  save_expected(folder, IMAGENET, functions)
  (folder / "expected.npz").rename(folder / "expected_dino.npz")
  functions = {16: dinov2, 24: resized(dinov2, 6, 6)}
  save_expected(folder, IMAGENET, functions)
  (folder / "expected.npz").rename(folder / "expected_dinov2.npz")


if __name__ == "__main__":
  make_huggingface()
  make_timm()
  make_original()
