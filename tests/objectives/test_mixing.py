import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
  share = float(share)
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
  np.testing.assert_allclose(own.mean(), share, rtol=1e-6)
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
