"""Checkpoints of facebookresearch/moco-v3."""

import numpy as np
import pytest

from vit_jax.models.vit import sizes
from vit_jax.weights import files, torch_file


def positions(side: int, width: int) -> np.ndarray:
  """As `build_2d_sincos_position_embedding` of the released vits.py.

  Its meshgrid is PyTorch's, whose first axis is that of the first argument.
  """
  grid_w, grid_h = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
  omega = 1 / 10_000 ** (np.arange(width // 4) / (width // 4))
  out_w, out_h = (np.outer(grid, omega) for grid in (grid_w, grid_h))
  table = np.concatenate(
    [np.sin(out_w), np.cos(out_w), np.sin(out_h), np.cos(out_h)], axis=1
  )
  return np.pad(table, ((1, 0), (0, 0)))[None].astype(np.float32)


def encoder(width: int, prefix: str, seed: int) -> dict[str, np.ndarray]:
  """One block for images of 4 x 4 patches, and the projection head."""
  random = np.random.default_rng(seed)
  shapes = {
    "cls_token": (1, 1, width),
    "patch_embed.proj.weight": (width, 3, 2, 2),
    "patch_embed.proj.bias": (width,),
    "blocks.0.norm1.weight": (width,),
    "blocks.0.norm1.bias": (width,),
    "blocks.0.attn.qkv.weight": (3 * width, width),
    "blocks.0.attn.qkv.bias": (3 * width,),
    "blocks.0.attn.proj.weight": (width, width),
    "blocks.0.attn.proj.bias": (width,),
    "blocks.0.norm2.weight": (width,),
    "blocks.0.norm2.bias": (width,),
    "blocks.0.mlp.fc1.weight": (4 * width, width),
    "blocks.0.mlp.fc1.bias": (4 * width,),
    "blocks.0.mlp.fc2.weight": (width, 4 * width),
    "blocks.0.mlp.fc2.bias": (width,),
    "norm.weight": (width,),
    "norm.bias": (width,),
    "head.0.weight": (8, width),
    "head.1.weight": (8,),
    "head.1.bias": (8,),
    "head.1.running_mean": (8,),
    "head.1.running_var": (8,),
    "head.3.weight": (8, 8),
    "head.4.running_mean": (8,),
    "head.4.running_var": (8,),
  }
  tensors = {
    name: random.normal(size=shape).astype(np.float32)
    for name, shape in shapes.items()
  }
  tensors["head.1.num_batches_tracked"] = np.array(3)
  tensors["pos_embed"] = positions(4, width)
  return {f"module.{prefix}{name}": x for name, x in tensors.items()}


@pytest.fixture
def read(tmp_path, monkeypatch):
  def read(tensors, part=""):
    path = tmp_path / "vit-s-300ep.pth.tar"
    path.touch()
    contents = {"state_dict": tensors, "optimizer": {"state": {}}}
    monkeypatch.setattr(torch_file, "read", lambda path: contents)
    return files.read(f"{path}{part}")

  return read


@pytest.mark.parametrize("width, num_heads", [(384, 12), (128, 2)])
def test_the_trained_encoder_is_taken_with_its_heads(read, width, num_heads):
  """Its ViT-S has 12 heads, not 6 as others of this width."""
  tensors = {
    **encoder(width, "base_encoder.", 0),
    **encoder(width, "momentum_encoder.", 1),
    "module.predictor.0.weight": np.ones((8, 8), np.float32),
  }
  for part, taken in (
    ("", "base"),
    ("/base_encoder", "base"),
    ("/momentum_encoder", "momentum"),
  ):
    weights = read(tensors, part)
    assert sizes.vit(weights.model).num_heads == num_heads
    assert weights.heads_assumed
    assert weights.model.num_classes is None
    assert weights.model.pool == "cls"
    np.testing.assert_array_equal(
      weights.params["cls"], tensors[f"module.{taken}_encoder.cls_token"]
    )
    said = " ".join(weights.assumed)
    assert "projection head (8 tensors)" in said
    assert ("MoCo v3's, whose ViT-S has 12" in said) == (width == 384)
    assert said.count("(model.num_heads=") == 1
    told = "begin with 'base_encoder.' are taken, without momentum_encoder"
    assert (told in said) == (part == "")


def test_a_linear_classifier_on_it_has_its_heads_too(read):
  tensors = {
    name: x
    for name, x in encoder(384, "", 0).items()
    if not name.startswith("module.head.")
  }
  tensors["module.head.weight"] = np.ones((5, 384), np.float32)
  tensors["module.head.bias"] = np.ones(5, np.float32)
  model = read(tensors).model
  assert (sizes.vit(model).num_heads, model.num_classes) == (12, 5)
  # Without its positions, it may be any other ViT-S.
  tensors["module.pos_embed"] = tensors["module.pos_embed"] + 0.1
  assert sizes.vit(read(tensors).model).num_heads == 6
