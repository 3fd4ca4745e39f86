"""Closed-form costs and sizes against paper_facts 1.1 and sum rules."""

import pytest

from vit_jax.config import named_sections, names
from vit_jax.errors import UserError
from vit_jax.paper.cost import (
  computed_flops,
  forward_flops,
  num_params,
  trained_flops,
  training_exaflops,
)


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
  model = named_sections.section(
    "model", variant=variant, image_size=image_size
  )
  flops = forward_flops(model, num_classes=1000)
  digits = len(str(gmacs).split(".")[1])
  assert round(flops / 2e9, digits) == gmacs


TABLE_6 = [
  # row, epochs, exaFLOPs, tolerance (paper_facts, section 4)
  ("ViT-B/32", 7, 55, 0.021),
  ("ViT-B/16", 7, 224, 0.01),
  ("ViT-L/32", 7, 196, 0.01),
  ("ViT-L/16", 7, 783, 0.01),
  ("ViT-L/16", 14, 1567, 0.01),
  ("ViT-H/14", 14, 4262, 0.01),
  ("R50x1", 7, 50, 0.01),
  ("R50x2", 7, 199, 0.01),
  ("R101x1", 7, 96, 0.01),
  ("R152x1", 7, 141, 0.01),
  ("R152x2", 7, 563, 0.01),
  ("R152x2", 14, 1126, 0.01),
  ("R200x3", 14, 3306, 0.01),
  ("R50x1+ViT-B/32", 7, 106, 0.01),
  ("R50x1+ViT-B/16", 7, 274, 0.01),
  ("R50x1+ViT-L/32", 7, 246, 0.01),
  # Half of the 14 epochs' would be 834: the row is likely a slip.
  ("R50x1+ViT-L/16", 7, 859, 0.032),
  ("R50x1+ViT-L/16", 14, 1668, 0.01),
]


@pytest.mark.parametrize("row, epochs, exaflops, tolerance", TABLE_6)
def test_the_papers_pretraining_costs_follow(row, epochs, exaflops, tolerance):
  ours = training_exaflops(row, 303e6, epochs)
  assert ours == pytest.approx(exaflops, rel=tolerance)


@pytest.mark.parametrize(
  "row, exaflops",
  [("R50x1", 50.2), ("R101x1", 95.2), ("R152x2", 558), ("R200x3", 3289)],
)
def test_resnets_cost_what_the_facts_say(row, exaflops):
  epochs = 14 if row == "R200x3" else 7
  ours = training_exaflops(row, 303e6, epochs)
  assert ours == pytest.approx(exaflops, rel=1e-3)


def test_a_section_of_a_config_costs_as_its_name():
  assert training_exaflops(named_sections.section("model"), 1e6, 3) == (
    training_exaflops("ViT-B/16", 1e6, 3)
  )
  larger = named_sections.section("model", image_size=384, num_classes=5)
  forward = forward_flops(larger, num_classes=5)
  assert training_exaflops(larger, 1e6, 3) == 9e6 * forward / 1e18


def test_an_unknown_name_gets_the_nearest():
  with pytest.raises(UserError, match="ViT-B/16"):
    training_exaflops("ViTB/16", 1e6, 3)


def tiny_flops(num_classes, **keys):
  sizes = dict(variant="mu/4", width=16, mlp_dim=24, image_size=12)
  model = named_sections.section("model", **sizes, **{"depth": 1, **keys})
  return forward_flops(model, num_classes=num_classes)


def test_cost_is_linear_in_depth():
  costs = [tiny_flops(5, depth=depth) for depth in (1, 2, 3)]
  assert costs[2] - costs[1] == costs[1] - costs[0] > 0


def test_heads_add_their_products():
  bare = tiny_flops(None)
  head = tiny_flops(5)
  deep = tiny_flops(5, representation_size=7)
  assert head - bare == 2 * 16 * 5
  assert deep - bare == 2 * (16 * 7 + 7 * 5)


def test_the_last_layer_computes_what_the_head_reads():
  """Queries, scores, outputs and MLP of the class token alone."""
  sizes = dict(variant="mu/4", width=16, mlp_dim=24, image_size=12, depth=2)

  def left_out(**keys):
    model = named_sections.section("model", **{**sizes, **keys})
    whole = forward_flops(model, num_classes=5)
    return whole - computed_flops(model, num_classes=5)

  of_token = 2 * (2 * 16**2 + 2 * 10 * 16 + 2 * 16 * 24)
  assert left_out() == 9 * of_token
  for pool in ("gap", "cls_gap", "map"):
    assert left_out(pool=pool) == 0
  assert left_out(scan_layers=True) == 0


def test_what_stochastic_depth_skips_is_not_trained():
  """Half of each branch; of the last layer, of what is computed at all."""
  sizes = dict(variant="mu/4", width=16, mlp_dim=24, image_size=12, depth=2)
  skipping = dict(stochastic_depth_group=8, stochastic_depth_rate=0.5)

  def flops(**keys):
    model = named_sections.section(
      "model", stochastic_depth="constant", **{**sizes, **keys}
    )
    return (
      trained_flops(model, num_classes=5),
      computed_flops(model, num_classes=5),
    )

  outside = 2 * (9 * 48 * 16 + 16 * 5)  # Patches and head.
  trained, computed = flops(**skipping)
  assert trained - outside == (computed - outside) / 2
  trained, computed = flops(**skipping, pool="gap")
  assert trained - outside == (computed - outside) / 2
  trained, computed = flops(stochastic_depth_rate=0.5)
  assert trained == computed


def test_an_objective_that_reads_patches_has_the_last_mlp_for_them_alone():
  jax = pytest.importorskip("jax")
  from vit_jax.models import build
  from vit_jax.objectives import masked_tokens

  sizes = dict(variant="mu/4", width=16, mlp_dim=24, image_size=12, depth=2)
  model = named_sections.section("model", **sizes)
  network = build.create(model, num_classes=None)
  images = jax.ShapeDtypeStruct((1, 12, 12, 3), "float32")
  params = jax.eval_shape(network.init, jax.random.key(0), images)["params"]

  def encode(params, images, token, mask, places):
    return masked_tokens.encode(
      network, params, images, token, mask, read_at=places
    )

  jaxpr = jax.make_jaxpr(encode)(
    params,
    images,
    jax.ShapeDtypeStruct((1, 1, 16), "float32"),
    jax.ShapeDtypeStruct((1, 9), "bool"),
    jax.ShapeDtypeStruct((1, 4), "int32"),
  )
  taken = 2 * 4 * 10 * 16  # By a product with ones and zeros.
  found = computed_flops(model, num_classes=None, read_patches=4)
  assert _product_flops(jaxpr.jaxpr) - taken == found
  whole = forward_flops(model, num_classes=None)
  assert whole - found == (10 - 4) * 2 * 2 * 16 * 24
  model = model.updated(scan_layers=True)
  assert whole == computed_flops(model, num_classes=None, read_patches=4)


def test_pool_none_pays_the_head_for_every_token():
  bare = tiny_flops(None, pool="none")
  head = tiny_flops(5, pool="none")
  assert head - bare == 9 * 2 * 16 * 5


@pytest.mark.parametrize("pool", ["cls", "gap", "cls_gap", "map", "none"])
@pytest.mark.parametrize("pos_embedding", ["learned_1d", "relative"])
def test_cost_is_what_xla_counts_in_matrix_products(pool, pos_embedding):
  """The jaxpr's products, counted one by one, add up to the formula."""
  jax = pytest.importorskip("jax")
  from vit_jax.models import build

  model = named_sections.section(
    "model",
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
  assert _product_flops(jaxpr.jaxpr) == computed_flops(model, num_classes=5)


@pytest.mark.parametrize(
  "keys",
  [
    dict(name="resnet", variant="R50x1", blocks=(1, 2), width=32),
    dict(name="resnet", variant="R50x1", blocks=(1, 1), image_size=57),
    dict(variant="Ti/8", depth=2, stem_blocks=(2, 1), stem_width=32),
    dict(variant="Ti/4", depth=2, stem_blocks=(1,), image_size=50),
    dict(variant="R+Ti/16", depth=2, image_size=96),
  ],
  ids=str,
)
def test_cost_of_convolutions_is_what_xla_counts(keys):
  """Taps on the padding left out, place by place."""
  jax = pytest.importorskip("jax")
  from vit_jax.models import build

  model = named_sections.section("model", **{"image_size": 64, **keys})
  network = build.create(model, num_classes=5)
  size = model.image_size
  images = jax.ShapeDtypeStruct((1, size, size, 3), "float32")
  params = jax.eval_shape(network.init, jax.random.key(0), images)
  jaxpr = jax.make_jaxpr(network.apply)(params, images)
  assert _product_flops(jaxpr.jaxpr) == computed_flops(model, num_classes=5)


@pytest.mark.parametrize("image_pool", ["cls", "map"])
@pytest.mark.parametrize("pool", ["last", "eot", "mean", "map"])
@pytest.mark.parametrize("scan_layers", [False, True])
def test_cost_of_two_towers_is_what_xla_counts(image_pool, pool, scan_layers):
  jax = pytest.importorskip("jax")
  from vit_jax.models import build

  model = named_sections.section(
    "model",
    name="two_towers",
    variant="mu/4",
    image_size=12,
    image={"depth": 2, "pool": image_pool},
    text={
      "variant": "mu",
      "depth": 1 if scan_layers else 3,
      "pool": pool,
      "scan_layers": scan_layers,
      "length": 7,
      "vocab_size": 11,
    },
  )
  network = build.create(model, num_classes=None)
  images = jax.ShapeDtypeStruct((1, 12, 12, 3), "float32")
  texts = jax.ShapeDtypeStruct((1, 7), "int32")
  params = jax.eval_shape(network.init, jax.random.key(0), images, texts)
  jaxpr = jax.make_jaxpr(network.apply)(params, images, texts)
  # Of one text for one image.
  pairs = 2 * params["params"]["text_projection"]["kernel"].shape[1]
  counted = _product_flops(jaxpr.jaxpr) - pairs
  assert counted == computed_flops(model, num_classes=None)


@pytest.mark.parametrize(
  "keys",
  [
    dict(name="resnet", variant="R50x1", image_size=128),
    dict(variant="R26+S/32", image_size=128),
    dict(variant="S/16"),
    dict(variant="B/32"),
  ],
  ids=["resnet", "hybrid", "S/16", "B/32"],
)
def test_cost_is_within_3_percent_of_xlas_analysis(keys):
  jax = pytest.importorskip("jax")
  from vit_jax.models import build

  model = named_sections.section("model", **keys)
  network = build.create(model, num_classes=1000)
  # A batch, as the kernels' standardisation is counted once.
  side = model.image_size
  images = jax.ShapeDtypeStruct((8, side, side, 3), "float32")
  params = jax.eval_shape(network.init, jax.random.key(0), images)
  counted = jax.jit(network.apply).lower(params, images).cost_analysis()
  ours = 8 * computed_flops(model, num_classes=1000)
  assert counted["flops"] == pytest.approx(ours, rel=0.03)


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
    if equation.primitive.name == "conv_general_dilated":
      total += _convolution_flops(equation)
  return total


def _convolution_flops(equation):
  image, kernel = (x.aval.shape for x in equation.invars)
  flops, params = 2 * kernel[2] * kernel[3], equation.params
  for axis, (before, _) in enumerate(params["padding"]):
    side, taps = image[axis + 1], 0
    for place in range(equation.outvars[0].aval.shape[axis + 1]):
      first = place * params["window_strides"][axis] - before
      reached = range(first, first + kernel[axis])
      taps += len(set(reached) & set(range(side)))
    flops *= taps
  return flops


@pytest.mark.parametrize(
  "name, with_head, with_representation, bare",
  [
    # paper_facts, section 1.1.
    ("ViT-Ti/16", 5_717_416, 5_754_472, 5_524_416),
    ("ViT-S/16", 22_050_664, 22_198_504, 21_665_664),
    ("ViT-S/32", 22_878_952, 23_026_792, 22_493_952),
    ("ViT-B/32", 88_224_232, 88_814_824, 87_455_232),
    ("ViT-B/16", 86_567_656, 87_158_248, 85_798_656),
    ("ViT-L/32", 306_535_400, 307_585_000, 305_510_400),
    ("ViT-L/16", 304_326_632, 305_376_232, 303_301_632),
    ("ViT-H/14", 632_045_800, 633_685_480, 630_764_800),
  ],
)
def test_transformers_have_the_parameters_of_the_facts(
  name, with_head, with_representation, bare
):
  deep = names.find(name).model_copy(update={"representation_size": "width"})
  assert num_params(name) == with_head
  assert num_params(deep) == with_representation
  assert num_params(name, num_classes=None) == bare


@pytest.mark.parametrize(
  "name, millions",
  [
    ("BiT-R50x1", 25.55),
    ("BiT-R101x1", 44.54),
    ("BiT-R50x3", 217.32),
    ("BiT-R101x3", 387.93),
    ("BiT-R152x2", 236.34),
    ("BiT-R152x4", 936.53),
  ],
)
def test_resnets_have_the_parameters_of_the_facts(name, millions):
  assert round(num_params(name) / 1e6, 2) == millions


@pytest.mark.parametrize(
  "keys",
  [
    dict(variant="mu/16", pool="map", qkv_bias=False),
    dict(variant="mu/16", pool="map", key_bias=False),
    dict(variant="Ti/16", depth=2, pool="gap", pos_embedding="sincos2d"),
    dict(variant="mu/16", cls_position=False),
    dict(variant="mu/16", pos_embedding="learned_2d"),
    dict(
      variant="mu/16",
      depth=2,
      pos_embedding="relative",
      pos_embedding_at="every_layer_shared",
    ),
    dict(variant="mu/16", depth=2, pos_embedding_at="every_layer"),
    dict(variant="mu/16", pool="gap", norm_after_pool=True),
    dict(variant="R50+B/16", depth=1, representation_size=9),
    dict(variant="R+Ti/16", depth=1, cls_token=True, pool="gap"),
    dict(name="resnet", variant="R50x1", blocks=(1, 2), width=32),
    dict(name="resnet", variant="R50x1", blocks=(1,), width=32),
  ],
  ids=str,
)
def test_networks_have_as_many_parameters(keys):
  jax = pytest.importorskip("jax")
  from vit_jax.models import build

  model = named_sections.section("model", **keys)
  network = build.create(model, num_classes=5)
  images = jax.ShapeDtypeStruct((1, 224, 224, 3), "float32")
  params = jax.eval_shape(network.init, jax.random.key(0), images)
  counted = sum(leaf.size for leaf in jax.tree.leaves(params))
  assert counted == num_params(model, num_classes=5)
