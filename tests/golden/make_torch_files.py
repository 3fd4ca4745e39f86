"""Writes tiny checkpoints with PyTorch and timm, and what they compute.

    PYTHONPATH=. python tests/golden/make_torch_files.py

Needs torch and timm.
"""

import argparse
import pathlib

import numpy as np
import timm
import torch
from safetensors.torch import load_file

HERE = pathlib.Path(__file__).parent / "torch_files"


def rename(name: str, file: str, **names: str) -> None:
  """Writes tensors of a folder of timm's by the names of their authors."""
  tensors = load_file(HERE.parent / name / "model.safetensors")
  renamed = {}
  for key, tensor in tensors.items():
    for old, new in names.items():
      key = key.replace(old.replace("_", "."), new)
    renamed[key] = tensor
  torch.save({"model": renamed}, HERE / file)


def main() -> None:
  HERE.mkdir(exist_ok=True)
  rename("timm_deit3", "deit3.pth", ls1_gamma="gamma_1", ls2_gamma="gamma_2")
  rename("timm_deit_distilled", "deit_distilled.pth")
  torch.manual_seed(0)
  net = timm.create_model(
    "deit_tiny_patch16_224",
    img_size=32,
    embed_dim=64,
    depth=1,
    num_heads=1,
    mlp_ratio=1,
    patch_size=8,
    num_classes=5,
  ).eval()
  with torch.no_grad():
    for parameter in net.parameters():
      parameter.copy_((torch.randn(parameter.shape) * 0.1).bfloat16())
    images = torch.randn(2, 3, 32, 32)
    logits = net(images)
  state = net.bfloat16().state_dict()
  arguments = argparse.Namespace(lr=1e-3, data=pathlib.Path("data"))
  torch.save({"model": state, "args": arguments, "epoch": 3}, HERE / "deit.pth")
  table = torch.arange(24, dtype=torch.float32).reshape(4, 6)
  torch.save(
    {
      "whole": table,
      "transposed": table.t(),
      "view": table[1:3, ::2],
      "half": table.half(),
      "brain": table.bfloat16(),
      "double": table.double(),
      "count": torch.tensor(7),
      "flags": torch.tensor([True, False]),
      "parameter": torch.nn.Parameter(torch.ones(2)),
      "empty": torch.zeros(0, 3),
    },
    HERE / "kinds.pt",
  )
  torch.save(
    {"a": table}, HERE / "legacy.pth", _use_new_zipfile_serialization=False
  )
  script = torch.jit.script(torch.nn.Linear(2, 2))
  torch.jit.save(script, HERE / "script.pt")
  np.savez(
    HERE / "expected.npz",
    images=images.permute(0, 2, 3, 1).numpy(),
    logits=logits.numpy(),
  )


if __name__ == "__main__":
  main()
