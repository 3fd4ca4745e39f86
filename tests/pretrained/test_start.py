"""A run that goes on with the authors' own checkpoint of DINO's training."""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import vit_jax
from tests import experiments
from vit_jax.objectives.dino.head import Head
from vit_jax.pretrained import reading
from vit_jax.rundir.position import Position
from vit_jax.rundir.run_directory import RunDirectory
from vit_jax.rundir.timing import Clock
from vit_jax.weights import torch_file

WIDTH, DEPTH, HIDDEN, BOTTLENECK, PROTOTYPES = 32, 2, 12, 6, 24
CROP = "decode|random_resized_crop"
RUN = {
  "objective__name": "dino",
  "objective__prototypes": PROTOTYPES,
  "objective__hidden_width": HIDDEN,
  "objective__bottleneck": BOTTLENECK,
  "objective__unit_prototypes": False,
  "train__views": {
    "global": {"count": 2, "preprocess": CROP},
    "local": {"count": 1, "preprocess": CROP, "size": 4},
  },
  "train__preprocess": "decode|keep('image')",
  "evals": {},
  "model__num_heads": 1,
  "model__gelu": "exact",
  "model__normalize": "imagenet",
  "model__pos_embedding_resize": "bicubic_offset",
}


def tensors(seed, start):
  """A ViT of two layers with its head, by the names of the released code."""
  rng = np.random.default_rng(seed)
  shapes = {
    "backbone.cls_token": (1, 1, WIDTH),
    "backbone.pos_embed": (1, 1 + 4, WIDTH),
    "backbone.patch_embed.proj.weight": (WIDTH, 3, 4, 4),
    "backbone.patch_embed.proj.bias": (WIDTH,),
    "backbone.norm.weight": (WIDTH,),
    "backbone.norm.bias": (WIDTH,),
    "head.mlp.0.weight": (HIDDEN, WIDTH),
    "head.mlp.0.bias": (HIDDEN,),
    "head.mlp.2.weight": (HIDDEN, HIDDEN),
    "head.mlp.2.bias": (HIDDEN,),
    "head.mlp.4.weight": (BOTTLENECK, HIDDEN),
    "head.mlp.4.bias": (BOTTLENECK,),
    "head.last_layer.weight_g": (PROTOTYPES, 1),
    "head.last_layer.weight_v": (PROTOTYPES, BOTTLENECK),
  }
  for layer in range(DEPTH):
    for name, (rows, columns) in {
      "attn.qkv": (3 * WIDTH, WIDTH),
      "attn.proj": (WIDTH, WIDTH),
      "mlp.fc1": (64, WIDTH),
      "mlp.fc2": (WIDTH, 64),
    }.items():
      shapes[f"backbone.blocks.{layer}.{name}.weight"] = (rows, columns)
      shapes[f"backbone.blocks.{layer}.{name}.bias"] = (rows,)
    for name in ("norm1", "norm2"):
      for kind in ("weight", "bias"):
        shapes[f"backbone.blocks.{layer}.{name}.{kind}"] = (WIDTH,)
  return {
    start + name: rng.normal(size=shape).astype(np.float32)
    for name, shape in shapes.items()
  }


def checkpoint():
  """What `main_dino.py` saves, of arrays."""
  rng = np.random.default_rng(3)
  student = tensors(1, "module.")
  return {
    "student": student,
    "teacher": tensors(2, ""),
    "optimizer": {"state": {0: {"exp_avg": student["module.head.mlp.0.bias"]}}},
    "epoch": np.array(7),
    "dino_loss": {"center": rng.normal(size=(1, PROTOTYPES)).astype("float32")},
  }


def similarities(tensors, start, features):
  """What the head of the released code says of features."""
  x = np.float64(features)
  for number in (0, 2, 4):
    layer = f"{start}head.mlp.{number}"
    x = x @ tensors[f"{layer}.weight"].T + tensors[f"{layer}.bias"]
    x = x if number == 4 else x * special.ndtr(x)  # The exact GELU.
  x = x / np.linalg.norm(x, axis=1, keepdims=True)
  direction = np.float64(tensors[f"{start}head.last_layer.weight_v"])
  length = tensors[f"{start}head.last_layer.weight_g"]
  return (
    x
    @ (length * direction / np.linalg.norm(direction, axis=1, keepdims=True)).T
  )


def said(params, features):
  """What a head of ours says of features."""
  head = Head(PROTOTYPES, HIDDEN, BOTTLENECK, unit_prototypes=False)
  directions, rows = head.apply(
    {"params": params["dino_head"]}, jnp.asarray(features)
  )
  return np.asarray(directions @ rows.T)


def begun(workdir, path, **changes):
  """The state that a run begins with, and its experiment."""
  parts = experiments.build(**(RUN | {"init_from": str(path)} | changes))
  with RunDirectory(str(workdir), parts, Clock()) as directory:
    state = directory.restore_or_init()
    directory.finish("finished")
  return state, parts


@pytest.fixture
def published(tmp_path, monkeypatch):
  """The path of a checkpoint, whose arrays are not read from a file."""
  found = checkpoint()
  path = tmp_path / "dino_deitsmall16_pretrain_full_checkpoint.pth"
  path.write_bytes(b"")
  monkeypatch.setattr(torch_file, "read", lambda _: found)
  return path, found


def check(state, contents):
  """Checks that a state goes on with a checkpoint."""
  features = np.random.default_rng(4).normal(size=(5, WIDTH)).astype("float32")
  for params, name, start in (
    (state.params, "student", "module."),
    (state.objective_state["teacher"], "teacher", ""),
  ):
    theirs = contents[name]
    np.testing.assert_array_equal(
      params["cls"], theirs[f"{start}backbone.cls_token"]
    )
    np.testing.assert_array_equal(
      params["Transformer"]["encoderblock_1"]["MlpBlock_0"]["Dense_0"][
        "kernel"
      ],
      theirs[f"{start}backbone.blocks.1.mlp.fc1.weight"].T,
    )
    wanted = similarities(theirs, start, features)
    np.testing.assert_allclose(
      said(params, features), wanted, rtol=1e-5, atol=1e-5
    )
  np.testing.assert_array_equal(
    state.objective_state["center"], contents["dino_loss"]["center"][0]
  )


@pytest.mark.parametrize("mesh", [{}, {"mesh__fsdp": 4}])
def test_pre_training_goes_on_with_student_teacher_heads_and_centre(
  tmp_path, published, mesh
):
  path, contents = published
  state, parts = begun(tmp_path / "run", path, **mesh)
  check(state, contents)
  leaves = zip(
    *map(jax.tree.leaves, (state, parts.abstract_state)), strict=True
  )
  assert all(leaf.sharding == wanted.sharding for leaf, wanted in leaves)


def test_networks_made_of_it_are_the_teachers(published):
  path, contents = published
  _, params = vit_jax.load(path)
  teacher = contents["teacher"]["backbone.cls_token"]
  np.testing.assert_array_equal(params["cls"], teacher)
  weights = reading.read(str(path))
  assert weights.objective.name == "dino"
  assert "continue with the student" in " ".join(weights.assumed)


@pytest.mark.parametrize(
  "changes",
  [
    {"objective__hidden_width": 16},
    {"init_without": (r"dino_head/Dense_1.*",)},
  ],
)
def test_a_centre_of_other_prototypes_stays_behind(
  tmp_path, published, changes
):
  path, contents = published
  state, _ = begun(tmp_path / "run", path, **changes)
  np.testing.assert_array_equal(state.objective_state["center"], 0)
  student = contents["student"]["module.backbone.cls_token"]
  np.testing.assert_array_equal(state.params["cls"], student)


def test_a_student_that_is_not_whole_stays_behind(tmp_path, published):
  path, contents = published
  del contents["student"]["module.backbone.norm.bias"]
  state, _ = begun(tmp_path / "run", path)
  for params in (state.params, state.objective_state["teacher"]):
    np.testing.assert_array_equal(
      params["cls"], contents["teacher"]["backbone.cls_token"]
    )
  assert "the student" not in " ".join(reading.read(str(path)).assumed)


def test_a_run_goes_on_with_the_centre_of_another(tmp_path, published):
  path, contents = published
  first, parts = begun(tmp_path / "first", path)
  with RunDirectory(str(tmp_path / "saved"), parts, Clock()) as directory:
    directory.save(1, first, Position(), evaluation_due=False)
    directory.finish("finished")
  state, _ = begun(tmp_path / "second", tmp_path / "saved")
  check(state, contents)


@pytest.mark.slow
def test_a_file_of_torchs_is_read_as_torch_computes(tmp_path):
  torch = pytest.importorskip("torch")
  contents = checkpoint()
  tree = jax.tree.map(torch.from_numpy, contents)
  tree["args"] = argparse.Namespace(arch="vit_small", out_dim=PROTOTYPES)
  tree["epoch"] = 7
  path = tmp_path / "full.pth"
  torch.save(tree, path)
  state, _ = begun(tmp_path / "run", path)
  check(state, contents)
  linear = torch.nn.Linear
  last = torch.nn.utils.weight_norm(linear(BOTTLENECK, PROTOTYPES, bias=False))
  head = torch.nn.ModuleDict(
    {
      "mlp": torch.nn.Sequential(
        linear(WIDTH, HIDDEN),
        torch.nn.GELU(),
        linear(HIDDEN, HIDDEN),
        torch.nn.GELU(),
        linear(HIDDEN, BOTTLENECK),
      ),
      "last_layer": last,
    }
  )
  head.load_state_dict(
    {
      name.removeprefix("module.head."): tensor
      for name, tensor in tree["student"].items()
      if name.startswith("module.head.")
    }
  )
  features = np.random.default_rng(5).normal(size=(4, WIDTH)).astype("float32")
  with torch.no_grad():
    x = torch.nn.functional.normalize(head["mlp"](torch.from_numpy(features)))
    wanted = last(x).numpy()
  np.testing.assert_allclose(
    said(state.params, features), wanted, rtol=1e-5, atol=1e-5
  )
