"""The whole network: published values, counts and dtypes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.networks import (
  apply,
  random_params,
  stack_layers,
  tiny,
  unflatten,
)
from vit_jax import trees
from vit_jax.config import named_sections
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.models.vit.network import ViT


@pytest.mark.parametrize("scan_layers", [False, True])
def test_golden_logits(shared, scan_layers):
  """Parameters and logits that another implementation has written."""
  params = unflatten(np.load(shared / "golden" / "vit_token.npz"))
  io = np.load(shared / "golden" / "vit_token.io.npz")
  model = ViT(
    48, 2, 3, 96, 16, num_classes=10, image_size=64, scan_layers=scan_layers
  )
  if scan_layers:
    params = stack_layers(params)
  logits = model.apply({"params": params}, io["x"])
  np.testing.assert_allclose(logits, io["y"], rtol=1e-5, atol=1e-5)


FACTS_1_1 = [
  # variant, params, with pre_logits, no head, at 384 px
  ("Ti/16", 5_717_416, 5_754_472, 5_524_416, None),
  ("S/16", 22_050_664, 22_198_504, 21_665_664, None),
  ("S/32", 22_878_952, 23_026_792, 22_493_952, None),
  ("B/32", 88_224_232, 88_814_824, 87_455_232, 88_297_192),
  ("B/16", 86_567_656, 87_158_248, 85_798_656, 86_859_496),
  ("L/32", 306_535_400, 307_585_000, 305_510_400, 306_632_680),
  ("L/16", 304_326_632, 305_376_232, 303_301_632, 304_715_752),
  ("H/14", 632_045_800, 633_685_480, 630_764_800, None),
]


def _count(num_classes=1000, image_size=224, **keys):
  model = build.create(
    named_sections.section("model", image_size=image_size, **keys),
    num_classes=num_classes,
  )
  images = jax.ShapeDtypeStruct((1, image_size, image_size, 3), jnp.uint8)
  shapes = jax.eval_shape(model.init, jax.random.key(0), images)
  return trees.num_elements(shapes["params"])


@pytest.mark.parametrize(
  "variant, plain, deep, bare, larger", FACTS_1_1, ids=lambda x: str(x)
)
def test_parameters_are_counted_to_the_last(variant, plain, deep, bare, larger):
  keys = dict(variant=variant, scan_layers=True)  # Quick to trace.
  assert _count(**keys) == plain
  assert _count(**keys, representation_size="width") == deep
  assert _count(**keys, num_classes=None) == bare
  if larger is not None:
    assert _count(**keys, image_size=384) == larger


@pytest.mark.parametrize(
  "variant, count",
  [
    ("B/16", 103_186_515),
    ("B/32", 104_843_091),
    ("L/16", 326_740_307),
    ("L/32", 328_949_075),
    ("H/14", 660_385_363),
  ],
)
def test_parameters_of_the_imagenet_21k_form(variant, count):
  keys = dict(variant=variant, representation_size="width", scan_layers=True)
  assert _count(num_classes=21_843, **keys) == count


def test_the_loop_has_as_many_parameters_as_the_scan():
  assert _count(variant="S/16") == 22_050_664


def test_parameters_have_the_published_names(shared):
  model = ViT(48, 2, 3, 96, 16, num_classes=10, image_size=64)
  golden = np.load(shared / "golden" / "vit_token.npz")
  ours = {name: x.shape for name, x in trees.named_leaves(random_params(model))}
  assert ours == {name: golden[name].shape for name in golden.files}


def test_start_is_zero_logits_plus_bias_and_zero_cls():
  model = tiny(head_bias_init=-10.0, representation_size=6)
  images = np.ones((2, 8, 8, 3), np.float32)
  logits, params = model.init_with_output(jax.random.key(0), images)
  np.testing.assert_array_equal(logits, np.full((2, 5), -10.0))
  assert not params["params"]["cls"].any()
  assert params["params"]["pre_logits"]["kernel"].shape == (16, 6)


def test_representation_passes_through_tanh(images):
  model = tiny(representation_size=6)
  params = random_params(model)
  model_without = tiny(num_classes=None, representation_size=6)
  feature = model_without.apply({"params": params}, images)
  assert feature.shape == (4, 6)
  assert np.abs(feature).max() < 1
  head = params["head"]
  np.testing.assert_allclose(
    model.apply({"params": params}, images),
    np.asarray(feature) @ head["kernel"] + head["bias"],
    rtol=1e-4,
    atol=1e-5,
  )


def test_bytes_are_normalised_inside(images):
  del images
  rng = np.random.default_rng(0)
  bytes_ = rng.integers(0, 256, (2, 8, 8, 3), dtype=np.uint8)
  model = tiny()
  params = random_params(model)
  np.testing.assert_allclose(
    model.apply({"params": params}, bytes_),
    model.apply({"params": params}, (np.float32(bytes_) - 127.5) / 127.5),
    rtol=1e-4,
    atol=1e-5,
  )


@pytest.mark.parametrize(
  "pool, softmax_dtype, pos_embedding",
  [
    ("cls", "float32", "learned_1d"),
    ("gap", "bfloat16", "learned_2d"),
    ("map", "bfloat16", "relative"),
  ],
)
def test_bfloat16_stays_bfloat16_until_the_logits(
  pool, softmax_dtype, pos_embedding, images
):
  """Strict promotion refuses any mix of dtypes that is not asked for."""
  keys = dict(
    pool=pool,
    pos_embedding=pos_embedding,
    representation_size=16,
    softmax_dtype=softmax_dtype,
  )
  params = random_params(tiny(**keys))
  model = tiny(
    **keys, dtype="bfloat16", dropout_rate=0.1, stochastic_depth_rate=0.1
  )

  def loss(params):
    logits = model.apply(
      {"params": params},
      images,
      train=True,
      rngs={"dropout": jax.random.key(0)},
    )
    assert logits.dtype == jnp.float32
    return jnp.sum(logits)

  with jax.numpy_dtype_promotion("strict"):
    grads = jax.eval_shape(jax.grad(loss), params)
  assert {x.dtype for x in jax.tree.leaves(grads)} == {jnp.dtype("float32")}
  np.testing.assert_allclose(
    apply(model, params, images),
    apply(tiny(**keys), params, images),
    rtol=0.1,
    atol=0.15,
  )


@pytest.mark.parametrize(
  "keys",
  [
    {},
    {"pool": "gap"},
    {"pool": "map"},
    {"pool": "gap", "norm_after_pool": True},
  ],
)
def test_a_float32_head_brings_bfloat16_nearer_to_float32(keys):
  """Of 64 images, the root of the mean squared distance of their logits."""
  keys = {**keys, "representation_size": 16}
  rng = np.random.default_rng(3)
  images = rng.standard_normal((64, 8, 8, 3)).astype(np.float32)
  params = random_params(tiny(**keys))
  exact = apply(tiny(**keys), params, images)

  def distance(**dtypes):
    found = apply(tiny(**keys, **dtypes), params, images)
    return np.sqrt(np.mean(np.square(found - exact)))

  by_default = distance(dtype="bfloat16")
  assert by_default == distance(dtype="bfloat16", head_dtype="float32")
  assert distance(dtype="bfloat16", head_dtype="bfloat16") > 1.1 * by_default


def test_pixels_beyond_the_last_patch_are_dropped_on_request():
  model = tiny(image_size=11, drop_remainder=True)
  params = random_params(model)
  rng = np.random.default_rng(0)
  images = rng.standard_normal((2, 11, 11, 3)).astype(np.float32)
  np.testing.assert_array_equal(
    model.apply({"params": params}, images),
    tiny().apply({"params": params}, images[:, :8, :8]),
  )


def test_h14_at_384_px_has_27_by_27_patches():
  keys = dict(variant="H/14", scan_layers=True)
  extra = 27 * 27 - 16 * 16
  ours = _count(**keys, image_size=384, drop_remainder=True)
  assert ours == 632_045_800 + extra * 1280


@pytest.mark.parametrize("size", [(10, 8), (2, 4)])
def test_images_that_patches_do_not_cover_are_refused(size):
  images = np.zeros((1, *size, 3), np.float32)
  with pytest.raises(UserError, match="patches of 4 x 4 do not cover.*8 x 8"):
    tiny().init(jax.random.key(0), images)


def test_patches_that_do_not_cover_the_image_are_refused():
  model = ViT(16, 1, 2, 24, 4, num_classes=5, image_size=10)
  with pytest.raises(UserError, match="8 or 12"):
    model.init(jax.random.key(0), np.zeros((1, 10, 10, 3), np.float32))


@pytest.mark.parametrize("scan", [False, True])
def test_initialisation_returns_parameters_alone(scan):
  images = jnp.zeros((1, 8, 8, 3))
  variables = tiny(scan_layers=scan).init(jax.random.key(0), images)
  assert set(variables) == {"params"}
