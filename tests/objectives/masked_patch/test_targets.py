import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.objectives.masked_patch import kind, targets

SIZE, GRID = 8, 3


def images(side=SIZE * GRID):
  rng = np.random.default_rng(0)
  return rng.integers(0, 256, (2, side, side, 3), np.uint8)


def loop_over_patches(images, function):
  """function(patch [p, p, 3]) of each patch, row by row; [b, n, ...]."""
  return np.array(
    [
      [
        function(image[r * SIZE : (r + 1) * SIZE, c * SIZE : (c + 1) * SIZE])
        for r in range(GRID)
        for c in range(GRID)
      ]
      for image in images
    ]
  )


def colour(part):
  """Three bits of each channel's mean, red first."""
  red, green, blue = np.floor(part.reshape(-1, 3).mean(axis=0) / 32).astype(int)
  return int(f"{red:03b}{green:03b}{blue:03b}", base=2)


def colours_of_parts(patch):
  step = SIZE // 4
  return [
    colour(patch[r : r + step, c : c + step])
    for r in range(0, SIZE, step)
    for c in range(0, SIZE, step)
  ]


@pytest.mark.parametrize(
  ("name", "expected"),
  [
    ("mean_colour", lambda patch: [colour(patch)]),
    ("colours_4x4", colours_of_parts),
    ("pixels", lambda patch: (patch.reshape(-1) - 127.5) / 127.5),
  ],
)
def test_targets_are_those_of_a_loop_in_numpy(name, expected):
  target = targets.TARGETS[name]
  wanted = target.of(
    jnp.asarray(images(SIZE * GRID + 5)), SIZE, GRID, "minus_one_to_one"
  )
  np.testing.assert_allclose(
    wanted,
    loop_over_patches(images(SIZE * GRID + 5), expected),
    rtol=1e-5,
    atol=1e-6,
  )


@pytest.mark.parametrize(
  ("value", "level"), [(0, 0), (31, 0), (32, 1), (223, 6), (224, 7), (255, 7)]
)
def test_a_level_is_an_eighth_of_the_range(value, level):
  image = jnp.full((1, 4, 4, 3), value, jnp.uint8)
  found = targets.colours(image, size=4, grid=1, side=1)
  assert found.item() == level * (64 + 8 + 1)


@pytest.mark.parametrize(
  ("name", "outputs"),
  [("mean_colour", 512), ("colours_4x4", 16 * 512), ("pixels", 16 * 16 * 3)],
)
def test_the_head_has_as_many_outputs_as_the_paper_says(name, outputs):
  assert kind.NUM_OUTPUTS[name](16) == outputs


def test_colours_are_classified():
  wanted = np.array([[[3], [500]]])
  logits = np.zeros((1, 2, 512), np.float32)
  logits[0, 0, 3], logits[0, 1, 7] = 2.0, 1.0
  found = targets.TARGETS["mean_colour"].metrics(
    jnp.asarray(logits), jnp.asarray(wanted)
  )
  losses = [np.log(511 + np.e**2) - 2, np.log(511 + np.e)]
  np.testing.assert_allclose(found["loss"], np.mean(losses), rtol=1e-5)
  assert found["accuracy"] == 0.5


def test_each_part_has_logits_of_its_own():
  """A head that is sure of every part of every patch is right."""
  target = targets.TARGETS["colours_4x4"]
  wanted = target.of(
    jnp.asarray(images(SIZE * GRID + 5)), SIZE, GRID, "minus_one_to_one"
  )
  sure = 50.0 * jax.nn.one_hot(wanted, 512)
  found = target.metrics(sure.reshape(2, GRID**2, -1), wanted)
  assert found["accuracy"] == 1 and found["loss"] < 1e-6


def test_pixels_are_regressed():
  target = targets.TARGETS["pixels"]
  wanted = jnp.asarray([[[0.5, -1.0, 0.0]]])
  found = target.metrics(jnp.zeros((1, 1, 3)), wanted)
  assert set(found) == {"loss"}
  np.testing.assert_allclose(found["loss"], 1.25 / 3, rtol=1e-6)
