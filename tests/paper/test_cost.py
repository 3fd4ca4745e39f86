"""Closed-form costs against paper_facts 1.1 and sum rules."""

import pytest

from vit_jax.config import schema
from vit_jax.paper.cost import forward_flops, vit_forward_flops


@pytest.mark.parametrize(
  "variant, image_size, gmacs",
  [
    ("Ti/16", 224, 1.254),
    ("Ti/16", 384, 4.682),
    ("S/16", 224, 4.599),
    ("S/16", 384, 15.490),
    ("S/32", 224, 1.143),
    ("S/32", 384, 3.443),
    ("B/32", 224, 4.409),
    ("B/32", 384, 13.044),
    ("B/16", 224, 17.564),
    ("B/16", 384, 55.484),
    ("B/16", 512, 107.0),
    ("L/32", 224, 15.378),
    ("L/32", 384, 45.276),
    ("L/16", 224, 61.555),
    ("L/16", 384, 191.066),
    ("L/16", 512, 361.99),
    ("H/14", 224, 167.295),
    ("H/14", 384, 503.48),
    ("H/14", 392, 544.95),
    ("H/14", 518, 1016.7),
  ],
)
def test_gmacs_are_those_of_the_facts(variant, image_size, gmacs):
  model = schema.Model(variant=variant, image_size=image_size)
  flops = forward_flops(model, num_classes=1000)
  digits = len(str(gmacs).split(".")[1])
  assert round(flops / 2e9, digits) == gmacs


def test_the_papers_pretraining_costs_follow():
  """Table 6's exaFLOPs, within the 2 % that paper_facts section 4 gives."""
  for variant, epochs, exaflops in [
    ("B/32", 7, 55),
    ("B/16", 7, 224),
    ("L/32", 7, 196),
    ("L/16", 7, 783),
    ("L/16", 14, 1567),
    ("H/14", 14, 4262),
  ]:
    model = schema.Model(variant=variant)
    forward = forward_flops(model, num_classes=1000)
    ours = 3 * forward * 303e6 * epochs / 1e18
    assert ours == pytest.approx(exaflops, rel=0.021)


SIZES = dict(width=16, mlp_dim=24, patch_size=4, num_patches=9)


def test_cost_is_linear_in_depth():
  costs = [
    vit_forward_flops(**SIZES, depth=depth, num_classes=5)
    for depth in (1, 2, 3)
  ]
  assert costs[2] - costs[1] == costs[1] - costs[0] > 0


def test_heads_add_their_products():
  bare = vit_forward_flops(**SIZES, depth=1, num_classes=None)
  head = vit_forward_flops(**SIZES, depth=1, num_classes=5)
  deep = vit_forward_flops(
    **SIZES, depth=1, num_classes=5, representation_size=7
  )
  assert head - bare == 2 * 16 * 5
  assert deep - bare == 2 * (16 * 7 + 7 * 5)


def test_pool_none_pays_the_head_for_every_token():
  bare = vit_forward_flops(**SIZES, depth=1, num_classes=None, pool="none")
  head = vit_forward_flops(**SIZES, depth=1, num_classes=5, pool="none")
  assert head - bare == 9 * 2 * 16 * 5


@pytest.mark.parametrize("pool", ["cls", "gap", "map", "none"])
@pytest.mark.parametrize("pos_embedding", ["learned_1d", "relative"])
def test_cost_is_what_xla_counts_in_matrix_products(pool, pos_embedding):
  """The jaxpr's products, counted one by one, add up to the formula."""
  jax = pytest.importorskip("jax")
  from vit_jax.models import build

  model = schema.Model(
    variant="mu/4",
    depth=2,
    image_size=12,
    pool=pool,
    pos_embedding=pos_embedding,
    representation_size="width",
  )
  network = build.create(model, num_classes=5)
  images = jax.ShapeDtypeStruct((1, 12, 12, 3), "float32")
  params = jax.eval_shape(network.init, jax.random.key(0), images)
  jaxpr = jax.make_jaxpr(network.apply)(params, images)
  assert _product_flops(jaxpr.jaxpr) == forward_flops(model, num_classes=5)


def _product_flops(jaxpr):
  total = 0
  for equation in jaxpr.eqns:
    for parameter in equation.params.values():
      inner = getattr(parameter, "jaxpr", parameter)
      if hasattr(inner, "eqns"):
        total += _product_flops(inner)
    if equation.primitive.name == "dot_general":
      (contracted, _), _ = equation.params["dimension_numbers"]
      left = equation.invars[0].aval.shape
      flops = 2 * equation.outvars[0].aval.size
      for axis in contracted:
        flops *= left[axis]
      total += flops
  return total
