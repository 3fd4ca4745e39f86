"""Masks of rectangles, as BEiT's masking_generator.py draws them."""

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.objectives import block_masks

GRID = (14, 14)


def drawn(counts, seed=0, smallest=16):
  draw = jax.jit(block_masks.draw, static_argnums=(2, 3))
  key = jax.random.key(seed)
  found = draw(key, np.asarray(counts, np.int32), GRID, smallest)
  return np.asarray(found).reshape(-1, *GRID)


def test_there_are_never_more_than_asked_for_and_seldom_much_fewer():
  counts = np.repeat([0, 20, 75, 98], 100)
  found = drawn(counts).sum(axis=(1, 2))
  assert (found <= counts).all()
  assert (found[counts == 0] == 0).all()
  for count in (75, 98):
    assert found[counts == count].mean() > 0.85 * count


def test_masks_are_filled_to_the_number_at_random_places():
  mask = drawn([75] * 400).reshape(400, -1)
  assert (mask.sum(axis=1) < 75).mean() > 0.2
  found = np.asarray(block_masks.fill(jax.random.key(1), jnp.asarray(mask), 75))
  assert (found.sum(axis=1) == 75).all() and (found | ~mask).all()
  # Of an image's other patches, each is as likely as another.
  added, left = found & ~mask, ~mask
  share = added.sum(axis=1) / left.sum(axis=1)
  wanted = (share[:, None] * left).sum(axis=0)
  assert np.square(added.sum(axis=0) - wanted).sum() < 1.5 * wanted.sum()


def test_masked_patches_lie_together():
  """Most of them have a masked neighbour to their right, unlike scattered."""
  found = drawn([75] * 50)
  beside = (found[:, :, :-1] & found[:, :, 1:]).sum() / found.sum()
  assert beside > 0.7 > 75 / 196


def one_by_one(count, rng, smallest=16):
  """A mask made as the released code makes it, with Python's loops."""
  mask = np.zeros(GRID, bool)
  while mask.sum() < count:
    most = min(count - mask.sum(), mask.size // 2)
    for _ in range(10):
      area = (
        rng.uniform(smallest, most)
        if most > smallest
        else rng.uniform(most, smallest)
      )
      aspect = np.exp(rng.uniform(np.log(0.3), -np.log(0.3)))
      height, width = (
        round((area * aspect) ** 0.5),
        round((area / aspect) ** 0.5),
      )
      if height >= GRID[0] or width >= GRID[1]:
        continue
      top = rng.integers(0, GRID[0] - height, endpoint=True)
      left = rng.integers(0, GRID[1] - width, endpoint=True)
      part = mask[top : top + height, left : left + width]
      if 0 < part.size - part.sum() <= most:
        part[:] = True
        break
    else:
      break
  return mask


def test_they_are_distributed_as_the_released_codes():
  rng = np.random.default_rng(0)
  for count in (30, 75):
    wanted = np.stack([one_by_one(count, rng) for _ in range(800)])
    found = drawn([count] * 800, seed=count)
    sizes = found.sum(axis=(1, 2)), wanted.sum(axis=(1, 2))
    assert abs(sizes[0].mean() - sizes[1].mean()) < 0.02 * count
    assert abs(sizes[0].std() - sizes[1].std()) < 0.02 * count
    assert np.abs(found.mean(axis=0) - wanted.mean(axis=0)).max() < 0.08
