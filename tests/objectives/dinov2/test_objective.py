"""DINOv2, arXiv 2304.07193, beside its losses in NumPy."""

import functools

import jax
import numpy as np
import pytest
from scipy import special

from tests import experiments
from tests.models import networks
from tests.objectives.dino import oracle
from vit_jax import rngs
from vit_jax.data import facts, features
from vit_jax.errors import UserError
from vit_jax.models import build as models_build
from vit_jax.objectives import build
from vit_jax.objectives import dinov2 as public
from vit_jax.objectives.dinov2 import kind, masks, plan

RNGS = functools.partial(rngs.stream, 0, step=5)
CROP = "decode|random_resized_crop"
VIEWS = {
  "global": {"count": 2, "preprocess": CROP},
  "local": {"count": 2, "preprocess": CROP, "size": 8},
}
SETTINGS = {
  "objective__name": "dinov2",
  "objective__prototypes": 24,
  "objective__hidden_width": 16,
  "objective__bottleneck": 8,
  "objective__patch_bottleneck": 6,
  "objective__group": 4,
  "objective__teacher_temperature": 0.06,
  "train__views": VIEWS,
  "train__preprocess": "decode|keep('image')",
  "train__batch_size": 8,
  "model__image_size": 16,
  "model__layer_scale": 1.0,
  "evals": {},
}


def config(**changes):
  return experiments.config(**(SETTINGS | changes))


def objective_of(settings):
  found = facts.declare(settings, num_classes=4, num_examples=64)
  return build.build(settings, found, 6)


def check(settings):
  build.check(settings, features.check(settings))


def batch():
  rng = np.random.default_rng(1)
  return {
    "global": rng.integers(0, 256, (8, 2, 16, 16, 3), np.uint8),
    "local": rng.integers(0, 256, (8, 2, 8, 8, 3), np.uint8),
  }


def started(objective):
  """Parameters, and a state whose teacher differs from them."""
  params, state = jax.jit(objective.init)(jax.random.key(0))
  rng = np.random.default_rng(2)

  def moved(x):
    return x + 0.1 * rng.normal(size=x.shape).astype(np.float32)

  params = {**params, "mask_token": moved(params["mask_token"])}
  return params, jax.tree.map(moved, state)


def tokens(settings, params, crops, mask=None):
  """Class tokens [b, c, d] and patches [b, c, n, d]."""
  network = models_build.create(settings.model, num_classes=None)

  def encoded(network, images, mask):
    patches = network.embed_patches(images)
    if mask is not None:
      patches = patches * ~mask[..., None]
      patches = patches + params["mask_token"] * mask[..., None]
    grid = (images.shape[1] // 4,) * 2
    return network.encode(network.add_prefix(patches, grid), grid=grid)

  found = networks.apply(
    network,
    params,
    crops.reshape(-1, *crops.shape[2:]),
    None if mask is None else mask.reshape(-1, mask.shape[2]),
    method=encoded,
  )
  found = np.asarray(found).reshape(*crops.shape[:2], *found.shape[1:])
  return found[:, :, 0], found[:, :, 1:]


def entropy_of_neighbours(rows):
  """KoLeo by a loop over rows."""
  rows = np.asarray(rows, np.float64)
  rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
  total = 0.0
  for i, row in enumerate(rows):
    others = np.delete(rows, i, axis=0)
    nearest = others[np.argmax(others @ row)]
    total -= np.log(np.linalg.norm(row - nearest) + 1e-8)
  return total / len(rows)


@pytest.mark.parametrize(
  ("separate", "centering", "weight_norm"),
  [
    (True, "mean", True),
    (True, "sinkhorn", True),
    (False, "mean", True),
    (False, "sinkhorn", True),
    (True, "sinkhorn", False),
  ],
)
def test_the_loss_is_the_released_codes(separate, centering, weight_norm):
  settings = config(
    objective__unit_prototypes=weight_norm,
    objective__weight_norm=weight_norm,
    objective__separate_patch_head=separate,
    objective__centering=centering,
    objective__patch_weight=0.7,
    objective__koleo_weight=0.2,
  )
  objective = objective_of(settings)
  params, state = started(objective)
  prepared = objective.prepare(batch(), RNGS)
  found, (aux, metrics) = jax.jit(lambda *args: objective.loss(*args, RNGS, 0))(
    params, {}, state, prepared
  )

  mask = np.asarray(prepared["masks"])
  crops = batch()
  seen, patches = tokens(settings, params, crops["global"], mask)
  local, _ = tokens(settings, params, crops["local"])
  taught, taught_patches = tokens(settings, state["teacher"], crops["global"])

  similarities = functools.partial(oracle.similarities, weight_norm=weight_norm)

  def probabilities(logits, center):
    flat = logits.reshape(-1, 24)
    if centering == "sinkhorn":
      return oracle.sinkhorn(flat, 0.06).reshape(logits.shape)
    return special.softmax((logits - np.asarray(center)) / 0.06, axis=-1)

  given = similarities(state["teacher"]["dino_head"], taught)
  wanted = probabilities(given, state["center"])
  every = np.concatenate([seen, local], axis=1)
  logs = similarities(params["dino_head"], every) / 0.1
  logs = special.log_softmax(logs, axis=-1)
  terms = [
    -(wanted[:, g] * logs[:, v]).sum(axis=-1).mean()
    for g in range(2)
    for v in range(4)
    if g != v
  ]
  name = "ibot_head" if separate else "dino_head"
  given = similarities(state["teacher"][name], taught_patches[mask])
  wanted = probabilities(given, state["patch_center"])
  logs = similarities(params[name], patches[mask]) / 0.1
  by_patch = -(wanted * special.log_softmax(logs, axis=-1)).sum(axis=-1)
  of_crop = np.broadcast_to(mask.sum(axis=2)[:, :, None], mask.shape)[mask]
  of_patches = (by_patch / of_crop).sum() / 16
  koleo = sum(
    entropy_of_neighbours(seen[start : start + 4, crop]) / 2
    for start in (0, 4)
    for crop in range(2)
  )
  np.testing.assert_allclose(metrics["image_loss"], np.mean(terms), rtol=2e-5)
  np.testing.assert_allclose(metrics["patch_loss"], of_patches, rtol=2e-5)
  np.testing.assert_allclose(metrics["koleo"], koleo, rtol=1e-4)
  # Health of patches, padding left out.
  entropy = special.entr(wanted).sum(axis=-1).mean()
  shares = wanted.mean(axis=0)
  for name, number in (
    ("teacher_entropy", entropy),
    ("kl_to_student", by_patch.mean() - entropy),
    ("prototypes_used", np.exp(special.entr(shares).sum()) / 24),
  ):
    np.testing.assert_allclose(metrics[f"patch_{name}"], number, rtol=1e-3)
  if centering == "sinkhorn":
    deviation = np.abs(shares * 24 - 1).max()
    np.testing.assert_allclose(
      metrics["patch_marginal_deviation"], deviation, rtol=1e-3, atol=1e-5
    )
    assert "center_norm" not in metrics
  else:
    np.testing.assert_allclose(
      metrics["patch_center_norm"],
      np.linalg.norm(state["patch_center"]),
      rtol=1e-5,
    )
  np.testing.assert_allclose(
    found, np.mean(terms) + 0.7 * of_patches + 0.2 * koleo, rtol=2e-5
  )
  np.testing.assert_allclose(
    aux["patch_center"], given.mean(axis=0), rtol=1e-4, atol=1e-5
  )


def test_rows_of_a_linear_layer_start_like_the_heads_other_layers():
  """DINOv3's dino_head.py: all from N(0, 0.02^2), nothing of unit length."""
  settings = config(
    objective__weight_norm=False,
    objective__unit_prototypes=False,
    objective__prototypes=4096,
  )
  params, _ = jax.jit(objective_of(settings).init)(jax.random.key(0))
  for head in ("dino_head", "ibot_head"):
    assert list(params[head]["prototypes"]) == ["kernel"]
    rows = np.asarray(params[head]["prototypes"]["kernel"])
    assert abs(rows.mean()) < 1e-3
    np.testing.assert_allclose(rows.std(), 0.02, rtol=0.03)


def test_where_nothing_is_masked_patches_have_no_health():
  settings = config(objective__mask_probability=0.0)
  objective = objective_of(settings)
  params, state = started(objective)
  prepared = objective.prepare(batch(), RNGS)
  _, (_, metrics) = jax.jit(lambda *args: objective.loss(*args, RNGS, 0))(
    params, {}, state, prepared
  )
  assert "teacher_entropy" in metrics
  assert not any(name.startswith("patch_teacher") for name in metrics)


def test_koleo_is_finite_with_equal_rows_and_has_gradients_through_both():
  rows = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
  found, gradient = jax.value_and_grad(public.koleo)(rows)
  np.testing.assert_allclose(found, entropy_of_neighbours(rows), rtol=1e-5)
  step = 1e-3 * np.random.default_rng(1).normal(size=rows.shape)
  change = entropy_of_neighbours(rows + step) - entropy_of_neighbours(
    rows - step
  )
  np.testing.assert_allclose((gradient * step).sum(), change / 2, rtol=1e-2)
  rows[1] = rows[0]
  rows[2] = 0
  found, gradient = jax.value_and_grad(public.koleo)(rows)
  assert np.isfinite(found) and np.isfinite(gradient).all()


def test_koleo_of_two_opposite_rows_is_that_of_their_distance():
  rows = np.array([[3.0, 0.0], [-1.0, 0.0]], np.float32)
  np.testing.assert_allclose(public.koleo(rows), -np.log(2), rtol=1e-6)


def test_masks_are_spread_over_crops_and_shares():
  settings = config(
    model__image_size=32,
    objective__group=32,
    train__batch_size=64,
    objective__mask_ratio=(0.1, 0.5),
  )
  found = plan.of(settings)
  assert (found.grid, found.num_crops, found.num_masked) == (8, 64, 32)
  mask = np.asarray(
    jax.jit(masks.draw, static_argnums=(1, 2))(jax.random.key(0), found, 64)
  )
  assert mask.shape == (64, 2, 64)
  for group in np.split(mask, 2):
    counts = np.sort(group.reshape(64, 64).sum(axis=1))
    assert (counts[:32] == 0).all() and (counts[33:] > 0).all()
    # Least and largest share of the i-th of 32 crops.
    shares = np.linspace(0.1, 0.5, 33)
    assert (counts[32:] <= (64 * shares[1:]).astype(int)).all()
    assert counts.sum() <= found.bound
    assert counts.sum() >= 0.8 * 64 * shares[:-1].sum()


def test_masked_patches_are_found_with_their_shares():
  settings = config()
  found = plan.of(settings)
  objective = objective_of(settings)
  mask = objective.prepare(batch(), RNGS)["masks"]
  places, weights = jax.jit(masks.find, static_argnums=1)(mask, found)
  groups = np.asarray(mask).reshape(2, -1)
  for group, place, weight in zip(groups, places, weights, strict=True):
    count = group.sum()
    np.testing.assert_array_equal(place[:count], np.flatnonzero(group))
    assert (weight[:count] > 0).all() and (weight[count:] == 0).all()
  # One for each masked crop.
  masked = np.asarray(mask).any(axis=2).sum()
  np.testing.assert_allclose(weights.sum(), masked, rtol=1e-5)


def test_the_teachers_network_is_exported():
  teacher = {"cls": 1, "dino_head": {}, "ibot_head": {}, "mask_token": 0}
  assert kind.exported({"cls": 2}, {"teacher": teacher}) == {"cls": 1}


@pytest.mark.parametrize(
  ("changes", "words"),
  [
    ({"model__pool": "gap"}, ["pool = 'gap'", '"cls"']),
    ({"objective__mask_ratio": (0.5, 0.1)}, ["mask_ratio = (0.5, 0.1)"]),
    ({"objective__mask_ratio": (0.1, 0.2)}, ["at most 3 of 16", "placed"]),
    ({"objective__group": 1}, ["group = 1", "no neighbour"]),
    ({"objective__weight_norm": False}, ["unit_prototypes = True", "lengths"]),
    (
      {"objective__prototypes": 66, "mesh__fsdp": 4},
      ["prototypes = 66", "mesh.fsdp = 4 devices"],
    ),
    ({"train__accumulate_steps": 2}, ["accumulate_steps = 2", '"dinov2"']),
    ({"objective__teacher_momentum": 1.5}, ["teacher_momentum", "above 1"]),
    (
      {**experiments.RESNET, "model__layer_scale": None},
      ["'resnet'", "no patches"],
    ),
  ],
)
def test_what_cannot_be_trained_is_refused(changes, words):
  with pytest.raises(UserError) as error:
    check(config(**changes))
  for word in words:
    assert word in str(error.value)
