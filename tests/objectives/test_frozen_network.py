"""Frozen networks whose patches a student learns from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax
from tests.models import networks
from vit_jax.config import named_sections
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.models.features import features
from vit_jax.objectives import frozen_network

KEY = "config.objective.teacher"
SIDE = 8  # Of the student's images; its grid is 2 x 2.
STUDENT = dict(variant="Ti/4", width=16, depth=1, num_heads=2, mlp_dim=16)


def student(**keys):
  return named_sections.section(
    "model", **{**STUDENT, "image_size": SIDE, "normalize": "imagenet", **keys}
  )


def saved(path, model):
  params = networks.random_params(model)
  vit_jax.save(str(path), model, params)
  return str(path)


def bytes_of(count=3, side=SIDE):
  rng = np.random.default_rng(0)
  return jnp.asarray(rng.integers(0, 256, (count, side, side, 3), np.uint8))


def read(path, **keys):
  return frozen_network.read_patches(KEY, path, student(**keys))


def patches(network, images, **keys):
  return jax.jit(
    lambda params: network.patches(params, images, student(**keys))
  )(network.constants.params)


def test_patches_are_the_encoded_tokens_without_those_before_them(tmp_path):
  path = saved(tmp_path / "t.npz", networks.tiny(registers=2, width=24))
  found = patches(read(path), bytes_of())
  model, params = vit_jax.load(path)
  encoded = features(model, params, bytes_of(), ("encoded",))["encoded"]
  np.testing.assert_allclose(found, encoded[:, 3:], rtol=1e-5, atol=1e-5)
  assert found.shape == (3, 4, 24) and read(path).width == 24


@pytest.mark.parametrize("own", [8, 16])
def test_a_network_of_smaller_patches_sees_images_of_the_students_grid(
  tmp_path, own
):
  model = networks.tiny(variant="Ti/2", image_size=own, pool="gap")
  path = saved(tmp_path / "t.npz", model)
  found = patches(read(path), bytes_of())
  # 2 x 2 patches of 2 pixels, and pixels as the network has learnt to see them.
  model, params = vit_jax.load(path, image_size=4)
  images = jax.image.resize(
    (bytes_of() - jnp.float32(127.5)) / 127.5, (3, 4, 4, 3), "bilinear"
  )
  encoded = features(model, params, images, ("encoded",))["encoded"]
  np.testing.assert_allclose(found, encoded, rtol=1e-4, atol=1e-4)


def test_the_digest_is_of_the_file_whatever_the_grid(tmp_path):
  path = saved(tmp_path / "t.npz", networks.tiny(image_size=16))
  digests = [read(path, image_size=side).constants.digests for side in (8, 16)]
  assert digests[0] == digests[1] and list(digests[0]) == [path]


def test_no_gradient_reaches_it(tmp_path):
  path = saved(tmp_path / "t.npz", networks.tiny())
  network = read(path)
  gradient = jax.grad(
    lambda params: network.patches(params, bytes_of(), student()).sum()
  )(network.constants.params)
  assert not any(np.any(leaf) for leaf in jax.tree.leaves(gradient))


def test_a_random_network_is_like_the_student_and_that_of_its_seed():
  first, same, other = (
    read(path) for path in ("random", "random:0", "random:1")
  )
  np.testing.assert_array_equal(
    patches(first, bytes_of()), patches(same, bytes_of())
  )
  assert not np.allclose(patches(first, bytes_of()), patches(other, bytes_of()))
  assert first.width == STUDENT["width"]
  assert list(other.constants.digests) == ["random:1"]


def test_a_resnet_has_no_patches(tmp_path):
  path = saved(tmp_path / "t.npz", networks.tiny_resnet(image_size=SIDE))
  with pytest.raises(UserError, match="teacher.*ResNet.*no patches"):
    read(path)


def test_a_missing_file_is_named(tmp_path):
  with pytest.raises(UserError, match="does not exist"):
    read(str(tmp_path / "nothing.npz"))


TOWER = dict(width=24, depth=1, num_heads=2, mlp_dim=16)


def two_towers(path, **keys):
  """Saves a network of two towers; returns its parameters."""
  model = build.create(
    named_sections.section(
      "model",
      name="two_towers",
      variant="Ti/4",
      image_size=SIDE,
      image=TOWER,
      text=TOWER,
      **keys,
    ),
    num_classes=None,
  )
  images = np.zeros((1, SIDE, SIDE, 3), np.uint8)
  params = jax.jit(model.init)(jax.random.key(1), images)["params"]
  rng = np.random.default_rng(0)
  params = jax.tree.map(
    lambda x: x + np.float32(0.1 * rng.standard_normal(x.shape)), params
  )
  vit_jax.save(str(path), model, params)
  return params


def encoded_by(params):
  tower = networks.tiny(None, **TOWER)
  found = features(tower, params["image"], bytes_of(), ("encoded",))
  return found["encoded"][:, 1:]


def test_of_two_towers_it_is_that_of_images(tmp_path):
  params = two_towers(tmp_path / "t.npz", image_projection="affine")
  found = patches(read(str(tmp_path / "t.npz")), bytes_of())
  np.testing.assert_allclose(found, encoded_by(params), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["linear", "affine", "none"])
def test_the_projection_of_images_maps_each_patch(tmp_path, kind):
  path = str(tmp_path / "t.npz")
  size = 24 if kind == "none" else 10
  params = two_towers(path, image_projection=kind, embedding_size=size)
  wanted = np.asarray(encoded_by(params), np.float64)
  if kind != "none":
    projection = jax.tree.map(np.float64, params["image_projection"])
    wanted = wanted @ projection["kernel"] + projection.get("bias", 0)
  network = frozen_network.read_patches(KEY, path, student(), projected=True)
  assert network.width == size
  found = patches(network, bytes_of())
  np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
  # A run resumes with neither another projection nor without it.
  alone = read(path).constants.digests
  assert (network.constants.digests == alone) == (kind == "none")
