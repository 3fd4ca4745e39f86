"""BiT ResNets: counts, padding, plain Flax, dtypes and features."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models import oracle
from tests.models.networks import (
  apply,
  assert_trees_close,
  find,
  random_params,
  tiny_resnet,
)
from vit_jax import trees
from vit_jax.benchmarking.plain_resnet import PlainResNet
from vit_jax.config import named_sections
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.models.features import feature_names, features

PLAIN = PlainResNet(blocks=(1, 2), width=32, num_classes=5)


@pytest.mark.parametrize(
  "variant, millions",
  [
    ("R50x1", 25.55),
    ("R101x1", 44.54),
    ("R50x3", 217.32),
    ("R101x3", 387.93),
    ("R152x2", 236.34),
    ("R152x4", 936.53),
  ],
)
def test_parameters_are_as_many_as_published(variant, millions):
  model = named_sections.section("model", name="resnet", variant=variant)
  network = build.create(model, num_classes=1000)
  images = jax.ShapeDtypeStruct((1, 32, 32, 3), jnp.uint8)
  init = network.clone(image_size=32).init
  shapes = jax.eval_shape(init, jax.random.key(0), images)["params"]
  assert round(trees.num_elements(shapes) / 1e6, 2) == millions


def test_parameters_have_their_names():
  unit = [
    f"{name}{kind}"
    for name in "abc"
    for kind in ("/kernel", "_norm/bias", "_norm/scale")
  ]
  units = ["block1/unit01", "block2/unit01", "block2/unit02"]
  names = [f"{where}/{name}" for where in units for name in unit]
  names += [f"{where}/proj/kernel" for where in units[:2]]
  names += ["root_conv/kernel", "norm/bias", "norm/scale"]
  names += ["head/bias", "head/kernel"]
  params = random_params(tiny_resnet())
  assert {name for name, _ in trees.named_leaves(params)} == set(names)


def test_results_and_gradients_are_those_of_plain_flax(large_images):
  images = jnp.asarray(large_images)
  params = random_params(tiny_resnet())

  @functools.partial(jax.jit, static_argnums=1)
  @functools.partial(jax.value_and_grad, has_aux=True)
  def loss_and_grads(params, model):
    logits = model.apply({"params": params}, images, train=True)
    return jnp.sum(jnp.sin(logits)), logits

  (_, ours), our_grads = loss_and_grads(params, tiny_resnet())
  (_, plain), grads = loss_and_grads(params, PLAIN)
  np.testing.assert_allclose(ours, plain, rtol=1e-5, atol=1e-5)
  assert_trees_close(our_grads, grads, rtol=1e-3, atol=1e-4)


def test_plain_and_ours_start_from_the_same_parameters(large_images):
  images = jnp.asarray(large_images)
  assert_trees_close(
    jax.jit(tiny_resnet().init)(jax.random.key(0), images),
    jax.jit(PLAIN.init)(jax.random.key(0), images),
    rtol=1e-6,
    atol=0,
  )


def test_zeros_around_the_root_take_part_in_the_maxima():
  """Against NumPy; with SAME's minus infinity, borders would be negative."""
  model = tiny_resnet(image_size=8)
  params = random_params(model)
  rng = np.random.default_rng(0)
  images = rng.standard_normal((1, 8, 8, 3)).astype(np.float32)
  kernel = oracle.standardize(
    params["root_conv"]["kernel"], lambda variance: np.sqrt(variance + 1e-10)
  )
  maps = oracle.convolution(images, kernel, 2, (3, 3))
  maps = np.pad(maps, ((0, 0), (1, 1), (1, 1), (0, 0)))
  expected = np.zeros((1, 2, 2, 32))
  for i in range(2):
    for j in range(2):
      window = maps[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
      expected[:, i, j] = window.max((1, 2))
  root = find(model, params, images, ["root"])["root"]
  np.testing.assert_allclose(root, expected, rtol=1e-4, atol=1e-4)
  assert np.all(np.asarray(root)[:, 0] >= 0)
  assert np.any(np.asarray(root)[:, 0] == 0)


def test_one_unit_is_the_definition():
  """Strides, shortcut and order of norms, in float64."""
  rng = np.random.default_rng(1)
  model = tiny_resnet(blocks=(1, 1))
  params = random_params(model)
  images = rng.standard_normal((1, 16, 16, 3)).astype(np.float32)
  found = find(
    model, params, images, ["block1/unit01", "block2/unit01", "pre_logits"]
  )
  unit = params["block2"]["unit01"]

  def conv(name, x, stride, padding):
    kernel = oracle.standardize(unit[name]["kernel"], lambda v: v**0.5)
    return oracle.convolution(x, kernel, stride, (padding, padding))

  def activate(name, x):
    return np.maximum(oracle.group_norm(x, unit[f"{name}_norm"], 1e-5), 0)

  x = activate("a", np.asarray(found["block1/unit01"]))
  shortcut = conv("proj", x, 2, 0)
  x = conv("b", activate("b", conv("a", x, 1, 0)), 2, 1)
  x = shortcut + conv("c", activate("c", x), 1, 0)
  np.testing.assert_allclose(
    found["block2/unit01"], x, rtol=1e-3, atol=2e-4 * np.abs(x).max()
  )
  x = np.maximum(oracle.group_norm(x, params["norm"], 1e-5), 0).mean((1, 2))
  np.testing.assert_allclose(found["pre_logits"], x, rtol=1e-3, atol=1e-4)


def test_start_is_zero_logits_plus_bias(large_images):
  model = tiny_resnet(head_bias_init=-10.0)
  init = jax.jit(model.init_with_output)
  logits, _ = init(jax.random.key(0), large_images)
  np.testing.assert_array_equal(logits, np.full((2, 5), -10.0))


def test_without_head_the_pooled_features_come_back(large_images):
  model = tiny_resnet(num_classes=None)
  params = random_params(tiny_resnet())
  found = find(tiny_resnet(), params, large_images, ["pre_logits"])
  np.testing.assert_array_equal(
    apply(model, params, large_images), found["pre_logits"]
  )


def test_bytes_are_normalised_inside():
  rng = np.random.default_rng(0)
  bytes_ = rng.integers(0, 256, (2, 16, 16, 3), dtype=np.uint8)
  model = tiny_resnet(normalize="0.1,0.2,0.3/0.5,0.25,1")
  params = random_params(model)
  mean, deviation = np.float32([0.1, 0.2, 0.3]), np.float32([0.5, 0.25, 1])
  np.testing.assert_allclose(
    apply(model, params, bytes_),
    apply(model, params, (np.float32(bytes_) / 255 - mean) / deviation),
    rtol=1e-4,
    atol=1e-4,
  )


def test_every_name_is_found_with_its_shape(large_images):
  model = tiny_resnet()
  names = feature_names(model)
  found = find(model, random_params(model), large_images, names)
  assert set(found) == set(names)
  assert {name: value.shape for name, value in found.items()} == {
    "root": (2, 4, 4, 32),
    "block1/unit01": (2, 4, 4, 128),
    "block2/unit01": (2, 2, 2, 256),
    "block2/unit02": (2, 2, 2, 256),
    "encoded": (2, 2, 2, 256),
    "pre_logits": (2, 256),
    "logits": (2, 5),
  }


def test_unknown_feature_gets_the_nearest(large_images):
  with pytest.raises(UserError) as error:
    features(tiny_resnet(), {}, large_images, ["block2/unit1"])
  for word in ("'block2/unit1'", "'block2/unit01'", "'block2/unit02'"):
    assert word in str(error.value)


@pytest.mark.parametrize(
  "remat",
  [
    "full",
    pytest.param("named", marks=pytest.mark.slow),
    pytest.param("offload", marks=pytest.mark.slow),
  ],
)
def test_remat_changes_no_gradient(remat, large_images):
  images = jnp.asarray(large_images)
  params = random_params(tiny_resnet())

  def grads(model):
    def loss(params):
      return jnp.sum(jnp.sin(model.apply({"params": params}, images)))

    return jax.jit(jax.grad(loss))(params)

  assert_trees_close(
    grads(tiny_resnet(remat=remat)), grads(tiny_resnet()), rtol=1e-3, atol=1e-4
  )


def test_remat_keeps_convolutions_or_nothing(large_images):
  """The backward pass has as many more convolutions as are not kept."""
  images = jnp.asarray(large_images)

  def convolutions(remat):
    model = tiny_resnet(remat=remat)

    def loss(params):
      return jnp.sum(model.apply({"params": params}, images))

    shapes = jax.tree.map(jnp.asarray, random_params(model))
    return str(jax.make_jaxpr(jax.grad(loss))(shapes)).count(
      "conv_general_dilated["
    )

  none, named, full = (convolutions(x) for x in ("none", "named", "full"))
  assert none == named < full


def test_bfloat16_stays_bfloat16_until_the_logits(large_images):
  images = jnp.asarray(large_images)
  params = random_params(tiny_resnet())
  model = tiny_resnet(dtype="bfloat16")

  def loss(params):
    logits = model.apply({"params": params}, images)
    assert logits.dtype == jnp.float32
    return jnp.sum(logits)

  with jax.numpy_dtype_promotion("strict"):
    grads = jax.eval_shape(jax.grad(loss), params)
  assert {x.dtype for x in jax.tree.leaves(grads)} == {jnp.dtype("float32")}
  name = "block2/unit02"
  assert find(model, params, images, [name])[name].dtype == jnp.bfloat16
  np.testing.assert_allclose(
    apply(model, params, images),
    apply(tiny_resnet(), params, images),
    rtol=0.1,
    atol=0.15,
  )


def test_one_set_of_parameters_takes_images_of_any_size(large_images):
  model = tiny_resnet(image_size=48)
  np.testing.assert_array_equal(
    apply(model, random_params(model), large_images),
    apply(tiny_resnet(), random_params(model), large_images),
  )


def test_calling_it_composes_embed_encode_and_head(large_images):
  model = tiny_resnet()

  def by_parts(model, images):
    return model.head(model.encode(model.embed(images)))

  variables = {"params": random_params(model)}
  np.testing.assert_array_equal(
    model.apply(variables, large_images, method=by_parts),
    model.apply(variables, large_images),
  )


@pytest.mark.parametrize("image_size", [17, 31])
def test_any_image_size_will_do(image_size):
  model = tiny_resnet(image_size=image_size)
  images = jax.ShapeDtypeStruct((1, image_size, image_size, 3), jnp.uint8)
  params = random_params(model)
  maps = jax.eval_shape(
    lambda p, x: features(model, p, x, ["encoded"]), params, images
  )["encoded"]
  assert maps.shape[1] == -(-image_size // 8)
