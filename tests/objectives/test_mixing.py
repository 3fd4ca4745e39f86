import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from vit_jax.objectives import mixing

_IMAGES = jnp.asarray(
  np.random.default_rng(0).normal(size=(4, 8, 6, 3)).astype(np.float32)
)


@jax.jit
def _mixup(rng):
  return mixing.mix(_IMAGES, rng, mixup_alpha=0.4, cutmix_alpha=0.0)


@jax.jit
def _cutmix(rng):
  return mixing.mix(_IMAGES, rng, mixup_alpha=0.0, cutmix_alpha=1.0)


def test_mixup_is_the_weighted_mean_with_the_image_before():
  mixed, share = _mixup(jax.random.key(3))
  assert share.shape == (4,) and len(set(share.tolist())) == 1
  share = float(share[0])
  assert 0 <= share <= 1
  before = np.roll(_IMAGES, 1, axis=0)
  np.testing.assert_allclose(
    mixed, share * _IMAGES + (1 - share) * before, rtol=1e-4, atol=1e-5
  )


@pytest.mark.parametrize("seed", range(5))
def test_cutmix_pastes_one_box_and_its_share_is_the_area_left(seed):
  mixed, share = _cutmix(jax.random.key(seed))
  own = np.all(mixed == _IMAGES, axis=3)
  pasted = np.all(mixed == np.roll(_IMAGES, 1, axis=0), axis=3)
  np.testing.assert_array_equal(own, ~pasted)
  assert (own == own[:1]).all()
  np.testing.assert_allclose(own.mean(), share[0], rtol=1e-6)
  rows, columns = pasted[0].any(axis=1), pasted[0].any(axis=0)
  np.testing.assert_array_equal(pasted[0], np.outer(rows, columns))
  for line in (rows, columns):
    assert np.count_nonzero(np.diff(line.astype(int))) <= 2


def test_ratios_follow_the_beta_distribution():
  rngs = jax.random.split(jax.random.key(0), 4000)
  draw = jax.vmap(
    lambda rng: mixing.mix(
      jnp.zeros((1, 1, 1, 1)), rng, mixup_alpha=0.4, cutmix_alpha=0.0
    )[1]
  )
  shares = np.asarray(jax.jit(draw)(rngs))
  np.testing.assert_allclose(shares.mean(), 0.5, atol=0.03)
  np.testing.assert_allclose(shares.var(), 1 / (4 * 1.8), rtol=0.08)


def test_central_box_has_the_area_of_the_ratio():
  draw = jax.vmap(lambda rng: mixing.cutmix_box(rng, jnp.float32(0.75), 64, 32))
  boxes = np.asarray(jax.jit(draw)(jax.random.split(jax.random.key(0), 500)))
  areas = boxes.mean(axis=(1, 2))
  np.testing.assert_allclose(areas.max(), 0.25)
  assert areas.min() < 0.15  # Boxes at the edges are cut off.


def test_with_both_each_is_drawn_about_half_of_the_time():
  draw = jax.vmap(
    lambda rng: mixing.mix(_IMAGES[:2], rng, mixup_alpha=0.4, cutmix_alpha=1.0)[
      0
    ]
  )
  mixed = jax.jit(draw)(jax.random.split(jax.random.key(0), 200))
  pure = (mixed == _IMAGES[:2][None]) | (mixed == _IMAGES[1::-1][None])
  is_cutmix = np.asarray(pure.all(axis=(1, 2, 3, 4)))
  assert 0.35 < is_cutmix.mean() < 0.65


def test_repeated_examples_are_mixed_with_the_example_before():
  mixed, share = mixing.mix(
    _IMAGES, jax.random.key(1), mixup_alpha=0.4, cutmix_alpha=0.0, repeats=2
  )
  share = float(share[0])
  before = np.roll(_IMAGES, 2, axis=0)
  np.testing.assert_allclose(
    mixed, share * _IMAGES + (1 - share) * before, rtol=1e-4, atol=1e-5
  )
  labels = mixing.partners(jnp.arange(6) // 3, mode="batch", repeats=3)
  assert labels.tolist() == [1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("mode", ["pair", "elem"])
def test_ratios_are_of_pairs_or_of_images(mode):
  mixed, share = mixing.mix(
    _IMAGES, jax.random.key(2), mixup_alpha=0.8, cutmix_alpha=0.0, mode=mode
  )
  assert len(set(share.tolist())) == (2 if mode == "pair" else 4)
  if mode == "pair":
    np.testing.assert_array_equal(share, share[::-1])
    other = _IMAGES[::-1]
  else:
    other = np.roll(_IMAGES, 1, axis=0)
  weight = np.asarray(share).reshape(-1, 1, 1, 1)
  np.testing.assert_allclose(
    mixed, weight * _IMAGES + (1 - weight) * other, rtol=1e-4, atol=1e-5
  )


def _drawn(**keys):
  """Kinds of many images under 'elem': kept, blended or pasted."""
  images = jnp.arange(2000.0).reshape(-1, 1, 1, 1) + jnp.ones((2000, 16, 16, 1))
  mixed, share = mixing.mix(
    images,
    jax.random.key(0),
    mixup_alpha=1.0,
    cutmix_alpha=1.0,
    mode="elem",
    **keys,
  )
  other = jnp.roll(images, 1, axis=0)
  kept = np.asarray((mixed == images).all((1, 2, 3)) & (share == 1))
  pure = np.asarray(((mixed == images) | (mixed == other)).all((1, 2, 3)))
  return kept, pure & ~kept


def test_probability_is_the_share_of_images_that_are_mixed():
  kept, _ = _drawn(probability=0.3)
  assert kept.mean() == pytest.approx(0.7, abs=0.04)


def test_switch_is_the_share_of_cutmix():
  kept, pasted = _drawn(switch=0.8)
  # Boxes too small for a pixel change nothing.
  assert (kept | pasted).mean() == pytest.approx(0.8, abs=0.04)


def test_areas_of_boxes_are_those_of_timm():
  """Its `rand_bbox` and `correct_lam`, by NumPy."""
  rng = np.random.default_rng(0)
  height, width, count = 24, 16, 4000
  ratio = rng.beta(1, 1, count)
  cut = np.sqrt(1 - ratio)
  rows, columns = (
    ((cut * side).astype(int) // 2, rng.integers(0, side, count), side)
    for side in (height, width)
  )

  def extent(half, centre, side):
    return np.clip(centre + half, 0, side) - np.clip(centre - half, 0, side)

  wanted = 1 - extent(*rows) * extent(*columns) / (height * width)
  _, share = mixing.mix(
    jnp.zeros((count, height, width, 1)),
    jax.random.key(5),
    mixup_alpha=0.0,
    cutmix_alpha=1.0,
    mode="elem",
  )
  # Rounded, as shares are counts of pixels in another precision.
  found, wanted = (np.round(np.float64(x), 4) for x in (share, wanted))
  assert stats.ks_2samp(found, wanted).pvalue > 0.01
