"""Makes the small checkpoints of EVA-02 in this folder.

`timm_eva02` and `timm_eva02_sub_norm` are as timm saves them, with random
parameters, of the kinds of Ti and S, and of B and L; see make_huggingface.py.
`eva02` holds the authors' own forms of the same: `finetuned.pt`, under
"module", and `pretraining.pt`, under "model", with a mask token, a prediction
head, and angles of rotary positions in the two shapes that versions have.
What these compute at another size is timm's network on positions that torch
resizes without antialiasing. Made with torch 2.13.0 and timm 1.0.31:

  pip install torch transformers timm
  python tests/golden/make_eva02.py
"""

import copy
import re

import torch
from make_huggingface import CLIP, fresh, randomize, save_expected, save_timm
from timm.models.eva import Eva

SIZES = dict(
  img_size=12, patch_size=4, embed_dim=16, depth=1, num_heads=2, mlp_ratio=8 / 3
)
KIND = dict(swiglu_mlp=True, use_rot_pos_emb=True, ref_feat_shape=16)
SUB_NORM = dict(qkv_fused=False, scale_mlp=True)
# From timm's names to the authors', in order.
TO_AUTHORS = (
  (r"\.mlp\.fc1_g\.", ".mlp.w1."),
  (r"\.mlp\.fc1_x\.", ".mlp.w2."),
  (r"\.mlp\.fc1\.", ".mlp.w12."),
  (r"\.mlp\.fc2\.", ".mlp.w3."),
  (r"\.mlp\.norm\.", ".mlp.ffn_ln."),
  (r"\.([qv])_proj\.bias", r".\1_bias"),
)


def network(seed: int, **keys) -> Eva:
  model = Eva(**SIZES, **KIND, **keys)
  randomize(model, seed)
  return model


def larger(model: Eva) -> Eva:
  found = copy.deepcopy(model)
  found.set_input_size(img_size=20)
  return found


def resized(model: Eva) -> Eva:
  """The network for another grid, its positions resized as by the authors."""
  table = model.pos_embed.data
  maps = table[:, 1:].reshape(1, 3, 3, -1).permute(0, 3, 1, 2)
  maps = torch.nn.functional.interpolate(
    maps, size=(5, 5), mode="bicubic", align_corners=False
  )
  found = larger(model)
  patches = maps.permute(0, 2, 3, 1).flatten(1, 2)
  found.pos_embed.data = torch.cat([table[:, :1], patches], dim=1)
  return found


def angles(side: int, head_size: int) -> torch.Tensor:
  """Of rope.py: rows, columns, units, each pair of units alike."""
  frequencies = 10000.0 ** -(torch.arange(0, head_size // 2, 2) / head_size * 2)
  places = torch.arange(side) / side * 16
  turns = (places[:, None] * frequencies).repeat_interleave(2, dim=-1)
  shape = (side, side, head_size // 2)
  rows, columns = turns[:, None].expand(shape), turns[None].expand(shape)
  return torch.cat([rows, columns], dim=-1)


def authors(model: Eva, turns: torch.Tensor) -> dict[str, torch.Tensor]:
  """The parameters by the authors' names, with the angles of all layers."""
  found = {}
  for name, tensor in model.state_dict().items():
    for pattern, replacement in TO_AUTHORS:
      name = re.sub(pattern, replacement, name)
    found[name] = tensor
  for start in ("", *(f"blocks.{i}.attn." for i in range(len(model.blocks)))):
    found[f"{start}rope.freqs_cos"] = turns.cos()
    found[f"{start}rope.freqs_sin"] = turns.sin()
  return found


def make_timm() -> None:
  for name, seed, keys, architecture in (
    ("timm_eva02", 41, {}, "eva02_tiny_patch14_336"),
    ("timm_eva02_sub_norm", 42, SUB_NORM, "eva02_base_patch14_224"),
  ):
    # Published without a head after pre-training.
    classes = 5 if name == "timm_eva02" else 0
    model = network(seed, num_classes=classes, **keys)
    functions = {12: model, 20: larger(model)}
    arguments = SIZES | KIND | keys
    save_timm(
      name,
      model,
      CLIP,
      functions,
      architecture,
      global_pool="avg",
      model_args=arguments,
    )


def make_original() -> None:
  folder = fresh("eva02")
  model = network(43, num_classes=5, **SUB_NORM)
  tensors = authors(model, angles(3, 8).reshape(9, 8))
  torch.save({"module": tensors}, folder / "finetuned.pt")
  save_expected(folder, CLIP, {12: model, 20: resized(model)})
  (folder / "expected.npz").rename(folder / "expected_finetuned.npz")
  # The norm stands before the mean: features of the patches are predicted.
  model = network(44, num_classes=0, use_fc_norm=False)
  tensors = authors(model, angles(3, 8))
  head = torch.nn.Linear(16, 6)
  tensors |= {f"lm_head.{name}": x for name, x in head.state_dict().items()}
  tensors["mask_token"] = torch.full((1, 1, 16), 0.5)
  torch.save({"model": tensors}, folder / "pretraining.pt")
  save_expected(folder, CLIP, {12: model, 20: resized(model)})
  (folder / "expected.npz").rename(folder / "expected_pretraining.npz")


if __name__ == "__main__":
  make_timm()
  make_original()
