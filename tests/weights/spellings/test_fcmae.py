"""Checkpoints of facebookresearch/ConvNeXt-V2's pre-training.

The layout is that of its models/fcmae.py and models/convnextv2_sparse.py. The
oracle does what its utils.remap_checkpoint_keys does, with NumPy, a place of a
kernel at a time.
"""

import jax
import numpy as np
import pytest

import vit_jax
from tests.weights import torch_zip
from vit_jax import trees
from vit_jax.config import named_sections, schema
from vit_jax.data import facts
from vit_jax.errors import UserError
from vit_jax.objectives import build
from vit_jax.weights import files, surgery

DEPTHS, WIDTHS, DECODER = (1, 2, 1, 1), (4, 6, 8, 10), 12


def published(decoder_depth=1):
  """A state dict of random numbers, under the names of models/fcmae.py."""
  rng = np.random.default_rng(0)
  shapes = {
    "encoder.downsample_layers.0.0.weight": (WIDTHS[0], 3, 4, 4),
    "encoder.downsample_layers.0.0.bias": (WIDTHS[0],),
    "encoder.downsample_layers.0.1.weight": (WIDTHS[0],),
    "encoder.downsample_layers.0.1.bias": (WIDTHS[0],),
  }
  for i, (before, after) in enumerate(zip(WIDTHS, WIDTHS[1:], strict=False), 1):
    module = f"encoder.downsample_layers.{i}"
    shapes |= {
      f"{module}.0.ln.weight": (before,),
      f"{module}.0.ln.bias": (before,),
      f"{module}.1.kernel": (4, before, after),
      f"{module}.1.bias": (1, after),
    }
  for stage, (depth, width) in enumerate(zip(DEPTHS, WIDTHS, strict=True)):
    for block in range(depth):
      module = f"encoder.stages.{stage}.{block}"
      shapes |= {
        f"{module}.dwconv.kernel": (49, width),
        f"{module}.dwconv.bias": (1, width),
        f"{module}.norm.ln.weight": (width,),
        f"{module}.norm.ln.bias": (width,),
        f"{module}.pwconv1.linear.weight": (4 * width, width),
        f"{module}.pwconv1.linear.bias": (4 * width,),
        f"{module}.pwconv2.linear.weight": (width, 4 * width),
        f"{module}.pwconv2.linear.bias": (width,),
        f"{module}.grn.gamma": (1, 4 * width),
        f"{module}.grn.beta": (1, 4 * width),
      }
  shapes |= {
    "proj.weight": (DECODER, WIDTHS[-1], 1, 1),
    "proj.bias": (DECODER,),
    "mask_token": (1, DECODER, 1, 1),
    "pred.weight": (3 * 32**2, DECODER, 1, 1),
    "pred.bias": (3 * 32**2,),
  }
  for block in range(decoder_depth):
    module = f"decoder.{block}"
    shapes |= {
      f"{module}.dwconv.weight": (DECODER, 1, 7, 7),
      f"{module}.dwconv.bias": (DECODER,),
      f"{module}.norm.weight": (DECODER,),
      f"{module}.norm.bias": (DECODER,),
      f"{module}.pwconv1.weight": (4 * DECODER, DECODER),
      f"{module}.pwconv1.bias": (4 * DECODER,),
      f"{module}.pwconv2.weight": (DECODER, 4 * DECODER),
      f"{module}.pwconv2.bias": (DECODER,),
      f"{module}.grn.gamma": (1, 1, 1, 4 * DECODER),
      f"{module}.grn.beta": (1, 1, 1, 4 * DECODER),
    }
  return {
    name: np.float32(rng.standard_normal(shape))
    for name, shape in shapes.items()
  }


def remapped(state):
  """The dense encoder, in the layout of convnextv2_*_fcmae.pt."""
  dense = {}
  for name, array in state.items():
    if not name.startswith("encoder."):
      continue
    parts = [p for p in name.split(".")[1:] if p not in ("ln", "linear")]
    if parts[-1] == "kernel":
      parts[-1] = "weight"
      places = array if array.ndim == 3 else array[:, None]
      side = {4: 2, 49: 7}[len(array)]
      array = np.empty((*places.shape[:0:-1], side, side), np.float32)
      for place, matrix in enumerate(places):
        array[:, :, place % side, place // side] = matrix.T
    elif parts[-1] == "bias":
      array = array.reshape(-1)
    elif "grn" in parts:
      array = array.reshape(1, 1, 1, -1)
    dense[".".join(parts)] = array
  return dense


def config(**objective):
  return schema.Config(
    total_steps=10,
    model=named_sections.section(
      "model",
      **dict(name="convnext", variant="T", version=2, image_size=64),
      **dict(depths=DEPTHS, widths=WIDTHS, normalize="imagenet"),
    ),
    objective=named_sections.section("objective", name="fcmae", **objective),
  )


def shapes_of(settings):
  found = facts.declare(settings, num_classes=5, num_examples=None)
  init = build.build(settings, found, 10).init
  params, _ = jax.eval_shape(init, jax.random.key(0))
  return {name: leaf.shape for name, leaf in trees.named_leaves(params)}


def test_the_network_is_what_fine_tuning_starts_from(tmp_path):
  others = {"optimizer": {"state": {}, "param_groups": []}, "epoch": 7}
  path = torch_zip.save(tmp_path / "raw.pth", published(), **others)
  dense = torch_zip.save(tmp_path / "dense.pt", remapped(published()))
  found, wanted = files.read(path), files.read(dense)
  assert found.model == wanted.model
  assert found.model.version == 2
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)
  assert any(
    "The decoder (15 tensors) is not" in note for note in found.assumed
  )


@pytest.mark.parametrize("depth", [1, 2])
def test_pre_training_continues_with_the_decoder(tmp_path, depth):
  state = published(depth)
  path = torch_zip.save(tmp_path / "raw.pth", state)
  weights = files.read(path)
  assert weights.objective == schema.FCMAE(
    decoder_width=DECODER, decoder_depth=depth
  )
  settings = config(decoder_width=DECODER, decoder_depth=depth)
  fitted = surgery.fit(weights, settings.model, shapes_of(settings))
  assert not fitted.fresh
  decoder = fitted.params["decoder"]
  np.testing.assert_array_equal(
    decoder["mask_token"].ravel(), state["mask_token"].ravel()
  )
  for ours, theirs in (("embedding", "proj"), ("prediction", "pred")):
    np.testing.assert_array_equal(
      decoder[ours]["kernel"], state[f"{theirs}.weight"][:, :, 0, 0].T
    )
    np.testing.assert_array_equal(
      decoder[ours]["bias"], state[f"{theirs}.bias"]
    )
  for i in range(depth):
    block, name = decoder[f"block{i + 1:02}"], f"decoder.{i}"
    np.testing.assert_array_equal(
      block["depthwise"]["kernel"][:, :, 0],
      state[f"{name}.dwconv.weight"][:, 0].transpose(1, 2, 0),
    )
    np.testing.assert_array_equal(
      block["grn"]["scale"], state[f"{name}.grn.gamma"].ravel()
    )
    np.testing.assert_array_equal(
      block["expand"]["kernel"], state[f"{name}.pwconv1.weight"].T
    )


def test_a_decoder_of_another_size_starts_anew(tmp_path):
  path = torch_zip.save(tmp_path / "raw.pth", published())
  settings = config(decoder_width=8)
  fitted = surgery.fit(files.read(path), settings.model, shapes_of(settings))
  assert {name.partition("/")[0] for name in fitted.fresh} == {"decoder"}
  told = " ".join(fitted.notes)
  assert "decoder of the file is not used" in told
  assert "trained with the network are initialised: decoder." in told


def test_an_encoder_alone_is_read(tmp_path):
  state = {n: x for n, x in published().items() if n.startswith("encoder.")}
  weights = files.read(torch_zip.save(tmp_path / "raw.pth", state))
  assert weights.objective is None and not weights.beside
  assert not any("decoder" in note for note in weights.assumed)


@pytest.mark.parametrize("token", [{}, {"mask_token": np.zeros((1, 0, 1, 1))}])
def test_an_incomplete_decoder_is_left_out(tmp_path, token):
  state = {n: x for n, x in published().items() if n != "mask_token"} | token
  weights = files.read(torch_zip.save(tmp_path / "raw.pth", state))
  assert weights.objective is None and not weights.beside
  notes = " ".join(weights.assumed)
  count = 14 + len(token)
  assert f"The decoder ({count} tensors) is not part of the network." in notes


def test_all_of_it_is_loaded_by_name(tmp_path):
  path = torch_zip.save(tmp_path / "raw.pth", published())
  _, params = vit_jax.load(path, pretraining=True)
  assert params["decoder"]["prediction"]["kernel"].shape == (DECODER, 3 * 32**2)


@pytest.mark.parametrize("shape", [(48, 4), (49,), (49, 4, 1, 1)])
def test_a_kernel_that_is_no_square_is_named(tmp_path, shape):
  name = "encoder.stages.0.0.dwconv.kernel"
  state = published() | {name: np.zeros(shape)}
  path = torch_zip.save(tmp_path / "raw.pth", state)
  with pytest.raises(UserError) as error:
    files.read(path)
  assert str(error.value).startswith(f"{path}: '{name}' is of shape {shape}")
