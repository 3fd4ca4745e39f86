"""Big Transfer's names, google's, big_vision's and ours."""

import functools
import re

import jax
import numpy as np
import pytest
from etils import epath

from tests.models import networks
from vit_jax.config import named_sections
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.models.resnet.detect import detect
from vit_jax.registry import FAMILIES
from vit_jax.weights import flat
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import npz
from vit_jax.weights.spellings.resnet.npz import NPZ


@functools.cache
def _resnet():
  keys = dict(name="resnet", variant="R50x1", blocks=(1, 2), width=32)
  model = build.create(named_sections.section("model", **keys), num_classes=5)
  return model, flat.flatten(networks.random_params(model))


def resnet():
  model, params = _resnet()
  return model, dict(params)


def big_vision(params):
  """As big_vision's bit_paper.py names and shapes them."""
  renamed = {}
  for name, leaf in params.items():
    name = name.replace("root_conv", "root_block/conv_root")
    name = re.sub(r"^norm/", "norm-pre-head/", name)
    name = name.replace("/proj/", "/conv_proj/")
    for ours, number in zip("abc", "123", strict=True):
      name = name.replace(f"/{ours}_norm/", f"/gn{number}/")
      name = name.replace(f"/{ours}/", f"/conv{number}/")
    is_norm = re.search(r"gn\d/|norm-pre-head", name)
    renamed[name] = leaf[None, None, None] if is_norm else leaf
  return renamed


def counted(params):
  """TensorFlow's modules numbered throughout, as in some files."""
  numbers = iter(range(1, 1000))

  def number(match):
    return f"{match[0]}_{next(numbers)}"

  pattern = r"standardized_conv2d|group_norm"
  return {
    re.sub(pattern, number, name): leaf
    for name, leaf in NPZ.published(params).items()
  }


SPELLINGS = {
  "google's": NPZ.published,
  "google's, counted": counted,
  "big_vision's": lambda params: {
    f"params/{name}": leaf for name, leaf in big_vision(params).items()
  },
  "ours": lambda params: params,
}


def test_published_names_are_those_of_the_public_files():
  _, params = resnet()
  names = NPZ.published(params)
  for name, shape in {
    "resnet/root_block/standardized_conv2d/kernel": (7, 7, 3, 32),
    "resnet/block1/unit01/a/standardized_conv2d/kernel": (1, 1, 32, 32),
    "resnet/block1/unit01/a/proj/standardized_conv2d/kernel": (1, 1, 32, 128),
    "resnet/block1/unit01/a/group_norm/gamma": (32,),
    "resnet/block2/unit02/c/group_norm/beta": (64,),
    "resnet/group_norm/beta": (256,),
    "resnet/head/conv2d/kernel": (1, 1, 256, 5),
    "resnet/head/conv2d/bias": (5,),
  }.items():
    assert names[name].shape == shape
  assert all(name.startswith("resnet/") for name in names)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_gives_the_same_network(tmp_path, spelling):
  model, params = resnet()
  path = tmp_path / "bit.npz"
  np.savez(path, **SPELLINGS[spelling](params))
  found = npz.read(epath.Path(path))
  assert found.model == build.config_of(model)
  result = flat.flatten(found.params)
  assert result.keys() == params.keys()
  for name, leaf in params.items():
    np.testing.assert_array_equal(result[name], leaf)
  assert found.assumed == (
    "Images are taken to be of 224 pixels; any size will do.",
  )


def test_a_written_file_is_read_back_the_same(tmp_path):
  model, params = resnet()
  section = build.config_of(model).model_copy(
    update={
      "image_size": 64,
      "standardization": "torch",
      "normalize": "imagenet",
    }
  )
  path = epath.Path(tmp_path / "bit.npz")
  npz.write(
    path, Weights("test", section, flat.unflatten(params), list("abcde"))
  )
  with np.load(path) as file:
    assert set(file.files) == set(NPZ.published(params))
  found = npz.read(path)
  assert found.model == section and found.class_names == list("abcde")
  assert not found.assumed
  jax.tree.map(
    np.testing.assert_array_equal, flat.flatten(found.params), params
  )


@pytest.mark.parametrize("variant", ["R26x1", "R50x3", "R101x1"])
def test_the_variant_is_told_by_the_shapes(variant):
  wanted = named_sections.section(
    "model", name="resnet", variant=variant, num_classes=7
  )
  model = build.create(wanted, num_classes=7)
  image = jax.ShapeDtypeStruct((1, 224, 224, 3), np.uint8)
  params = jax.eval_shape(model.init, jax.random.key(0), image)["params"]
  shapes = {name: leaf.shape for name, leaf in flat.flatten(params).items()}
  found = detect(shapes, "x.npz", {})
  assert named_sections.section("model", **found.keys) == wanted
  assert FAMILIES.get("resnet").shapes(wanted, 7) == shapes


@pytest.mark.parametrize(
  "name",
  ["root_conv/kernel", "block1/unit01/proj/kernel", "block2/unit02/b/kernel"],
)
def test_a_missing_parameter_is_named(tmp_path, name):
  _, params = resnet()
  del params[name]
  np.savez(tmp_path / "bit.npz", **params)
  with pytest.raises(UserError, match=name):
    npz.read(epath.Path(tmp_path / "bit.npz"))


def test_a_parameter_in_two_spellings_is_an_error(tmp_path):
  _, params = resnet()
  np.savez(tmp_path / "bit.npz", **params, **NPZ.published(params))
  with pytest.raises(UserError, match="twice, in two spellings"):
    npz.read(epath.Path(tmp_path / "bit.npz"))
