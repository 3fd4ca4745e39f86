"""Checkpoints of facebookresearch/dino and dinov2."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy import special

import vit_jax
from tests.weights.published import GOLDEN, outputs, relative_error
from vit_jax.errors import UserError
from vit_jax.models.vit import sizes
from vit_jax.objectives.dino import head
from vit_jax.weights import files, torch_file
from vit_jax.weights.spellings.vit import dino, swiglu
from vit_jax.weights.spellings.vit.original import ORIGINAL

HERE = GOLDEN / "dino"


def wanted(name):
  return np.load(HERE / f"expected_{name}.npz")


def state(name):
  found = torch_file.read(HERE / f"{name}.pth")
  return found.get("teacher", found)


@pytest.mark.parametrize("name", ["dino", "dinov2"])
def test_outputs_are_those_of_torch(name):
  weights = files.read(str(HERE / f"{name}.pth"))
  found = outputs(weights, wanted(name)["images"])
  assert relative_error(found, wanted(name)["outputs"]) < 1e-5


@pytest.mark.parametrize("name", ["dino", "dinov2"])
def test_positions_are_resized_by_their_scale_factors(name):
  images = wanted(name)["images_24"]
  path = str(HERE / f"{name}.pth")
  for keys in ({}, {"image_size": 24}):  # In the network, and on loading.
    network, params = vit_jax.load(path, **keys)
    found = np.asarray(jax.jit(network.apply)({"params": params}, images))
    assert relative_error(found, wanted(name)["outputs_24"]) < 1e-5
  weights = files.read(path)
  plain = weights.model.model_copy(update={"pos_embedding_resize": "bicubic"})
  found = outputs(weights, images, plain)
  assert relative_error(found, wanted(name)["outputs_24"]) > 1e-4


def test_the_teacher_is_taken():
  weights = files.read(str(HERE / "dino.pth"))
  teacher = state("dino")["backbone.cls_token"]
  np.testing.assert_array_equal(weights.params["cls"], teacher)
  said = " ".join(weights.assumed)
  assert "'teacher' is taken" in said and "projection head (4 tensors)" in said
  assert "model.pos_embedding_resize='bicubic_offset'" in said
  assert weights.model.normalize == "imagenet" and not weights.beside


def test_parts_of_dinov2_are_told():
  weights = files.read(str(HERE / "dinov2.pth"))
  model = weights.model
  assert (model.mlp, sizes.vit(model).mlp_dim) == ("swiglu", 16)
  assert model.layer_scale and model.cls_position and not model.registers
  # Continued pre-training begins with it.
  np.testing.assert_array_equal(
    weights.beside["mask_token"], np.ones((1, 1, 16))
  )


def test_blocks_in_chunks_and_registers_get_timms_names():
  tensors = state("dinov2")
  chunked = {
    name.replace("blocks.0.", "blocks.0.0."): tensor
    for name, tensor in tensors.items()
  }
  chunked["register_tokens"] = np.ones((1, 4, 16), np.float32)
  chunked["ibot_head.last_layer.weight_g"] = np.ones((4, 1), np.float32)
  notes = []
  found = ORIGINAL.prepare(chunked, "x.pth", notes)
  plain = ORIGINAL.prepare(tensors, "x.pth", [])
  assert found.pop("reg_token").shape == (1, 4, 16)
  assert found.keys() == plain.keys()
  assert "mask_token" not in found and "blocks.0.mlp.gate.bias" in found
  assert any("(1 tensors)" in note for note in notes)
  with_registers = plain | {"reg_token": chunked["register_tokens"]}
  assert dino.resize(with_registers, []) == "bicubic_antialias"


def test_networks_with_a_head_and_maes_are_no_dinos():
  tensors = ORIGINAL.prepare(
    {n.removeprefix("backbone."): x for n, x in state("dino").items()}, "x", []
  )
  notes = []
  assert dino.resize(tensors, notes) == "bicubic_offset" and notes
  head = {"head.weight": np.ones((5, 16), np.float32)}
  assert dino.resize(tensors | head, []) is None
  table = tensors["pos_embed"].copy()
  table[:, 0] = 0  # As MAE's fixed positions have it.
  assert dino.resize(tensors | {"pos_embed": table}, []) is None


def test_halves_of_a_swiglu_keep_their_order():
  weight = np.arange(12, dtype=np.float32).reshape(6, 2)
  tensors = {"blocks.0.mlp.w12.weight": weight, "norm.bias": weight[0]}
  names = (".mlp.w12", ".mlp.gate", ".mlp.fc1")
  found = swiglu.taken_apart(tensors, *names, "x.pth")
  np.testing.assert_array_equal(found["blocks.0.mlp.gate.weight"], weight[:3])
  np.testing.assert_array_equal(found["blocks.0.mlp.fc1.weight"], weight[3:])
  back = swiglu.put_together(found, *names)
  assert back.keys() == tensors.keys()
  np.testing.assert_array_equal(back["blocks.0.mlp.w12.weight"], weight)
  with pytest.raises(UserError, match=r"w12.weight' is of shape \(5, 2\)"):
    swiglu.taken_apart({"blocks.0.mlp.w12.weight": weight[:5]}, *names, "x.pth")


def test_safetensors_by_the_authors_names_are_read(tmp_path):
  path = tmp_path / "model.safetensors"
  save_file({n: x.copy() for n, x in state("dinov2").items()}, path)
  found = files.read(str(path)).params
  wanted = files.read(str(HERE / "dinov2.pth")).params
  jax.tree.map(np.testing.assert_array_equal, found, wanted)


def head_of_torch(prefix, length, number=24, width=5):
  """A head of random numbers by the names of torch before 2.0."""
  rng = np.random.default_rng(3)
  shapes = {
    "mlp.0.weight": (8, 16),
    "mlp.0.bias": (8,),
    "mlp.2.weight": (8, 8),
    "mlp.2.bias": (8,),
    "mlp.4.weight": (width, 8),
    "mlp.4.bias": (width,),
    "last_layer.weight_v": (number, width),
  }
  found = {
    prefix + name: rng.normal(size=shape).astype(np.float32)
    for name, shape in shapes.items()
  }
  return found | {
    f"{prefix}last_layer.weight_g": np.full((number, 1), length, np.float32)
  }


@pytest.mark.parametrize("length", [1.0, 0.5])
def test_a_head_comes_beside_the_network(length):
  tensors = head_of_torch("head.", length)
  newer = {
    name.replace("weight_g", "parametrizations.weight.original0").replace(
      "weight_v", "parametrizations.weight.original1"
    ): tensor
    for name, tensor in tensors.items()
  }
  features = np.random.default_rng(4).normal(size=(3, 16)).astype(np.float32)
  for names in (tensors, newer):
    found, objective = ORIGINAL.beside(names, "x.pth")
    assert objective.name == "dino"
    assert (objective.prototypes, objective.hidden_width) == (24, 8)
    assert (objective.bottleneck, objective.unit_prototypes) == (5, length == 1)
    module = head.Head(24, 8, 5, objective.unit_prototypes)
    directions, rows = module.apply(
      {"params": found["dino_head"]}, jnp.asarray(features)
    )
    # torch's linear layers, exact GELU, and weight_norm.
    x = features.astype(np.float64)
    for number in (0, 2, 4):
      weight, bias = (
        np.float64(tensors[f"head.mlp.{number}.{kind}"])
        for kind in ("weight", "bias")
      )
      x = x @ weight.T + bias
      x = x if number == 4 else x * special.ndtr(x)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    weight = np.float64(tensors["head.last_layer.weight_v"])
    weight = length * weight / np.linalg.norm(weight, axis=1, keepdims=True)
    np.testing.assert_allclose(directions @ rows.T, x @ weight.T, atol=1e-5)


def test_dinov2s_two_heads_come_with_its_mask_token():
  tensors = {
    **head_of_torch("dino_head.", 1.0),
    **head_of_torch("ibot_head.", 1.0, width=3),
    "cls_token": np.zeros((1, 1, 16), np.float32),
    "mask_token": np.ones((1, 16), np.float32),
  }
  found, objective = ORIGINAL.beside(tensors, "x.pth")
  assert found.keys() == {"dino_head", "ibot_head", "mask_token"}
  assert objective.name == "dinov2" and objective.separate_patch_head
  assert (objective.bottleneck, objective.patch_bottleneck) == (5, 3)
  assert found["mask_token"].shape == (1, 1, 16)
