"""Probabilities of many prototypes, beside those of whole arrays in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from tests.objectives.dino import oracle
from vit_jax.models.layers import placement
from vit_jax.objectives import dino
from vit_jax.objectives.dino import prototypes

RNG = np.random.default_rng(0)
# Enough for two chunks.
NUM, WIDTH = 8192, 6


def unit(*shape):
  x = RNG.normal(size=shape)
  return (x / np.linalg.norm(x, axis=-1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def arrays():
  """Features of student and teacher, and prototypes of both."""
  return (
    unit(5, 4, WIDTH),
    unit(5, 2, WIDTH),
    unit(NUM, WIDTH),
    unit(NUM, WIDTH),
  )


@pytest.mark.parametrize("platform", ["cpu", "tpu"])
@pytest.mark.parametrize("how", ["centred", "balanced"])
def test_a_comparison_is_that_of_whole_arrays(
  arrays, how, platform, monkeypatch
):
  """Also in the form for TPUs, whose sums are matrix products."""
  monkeypatch.setattr(placement, "platform", lambda: platform)
  student, teacher, ours, theirs = arrays
  center = RNG.normal(size=NUM).astype(np.float32) * 0.1
  similarities = (teacher @ theirs.T).astype(np.float64)
  if how == "centred":
    given = prototypes.centred(teacher, theirs, 0.05, center)
    wanted = special.softmax((similarities - center) / 0.05, axis=-1)
  else:
    given = prototypes.balanced(teacher, theirs, 0.05)
    flat = similarities.reshape(10, NUM)
    wanted = oracle.sinkhorn(flat, 0.05).reshape(5, 2, NUM)
  logs = special.log_softmax((student @ ours.T).astype(np.float64) / 0.1, -1)
  # Of its own, as another platform's trace may be known.
  compare = jax.jit(lambda *given: prototypes.compare(*given))
  found = compare(student, ours, 0.1, given)
  np.testing.assert_allclose(
    found.cross_entropy, -np.einsum("bgk,bvk->bgv", wanted, logs), rtol=1e-5
  )
  np.testing.assert_allclose(
    found.entropy, special.entr(wanted).sum(axis=-1), rtol=1e-4
  )
  np.testing.assert_allclose(
    found.used, wanted.mean(axis=(0, 1)), rtol=1e-4, atol=1e-9
  )


@pytest.mark.parametrize("how", ["centred", "balanced"])
@pytest.mark.parametrize(
  ("temperature", "longest"), [(0.01, 1.0), (0.04, 1.0), (0.04, 6.0)]
)
def test_low_temperatures_and_long_prototypes_are_right(
  arrays, how, temperature, longest
):
  """Logits of up to 150, whose exponentials float32 does not hold."""
  student, teacher, ours, theirs = arrays
  lengths = np.linspace(0.5 * longest, longest, NUM, dtype=np.float32)[:, None]
  ours, theirs = ours * lengths, theirs * lengths[::-1]
  similarities = (teacher @ theirs.T).astype(np.float64)
  if how == "centred":
    given = prototypes.centred(teacher, theirs, temperature, jnp.zeros(NUM))
    wanted = special.softmax(similarities / temperature, axis=-1)
  else:
    given = prototypes.balanced(teacher, theirs, temperature)
    flat = similarities.reshape(10, NUM) / temperature
    for _ in range(3):
      flat = special.log_softmax(special.log_softmax(flat, axis=0), axis=1)
    wanted = np.exp(flat).reshape(5, 2, NUM)
  logs = (student @ ours.T).astype(np.float64) / temperature
  logs = special.log_softmax(logs, axis=-1)
  found = jax.jit(prototypes.compare)(student, ours, temperature, given)
  np.testing.assert_allclose(
    found.cross_entropy,
    -np.einsum("bgk,bvk->bgv", wanted, logs),
    rtol=2e-4,
  )
  np.testing.assert_allclose(
    found.entropy, special.entr(wanted).sum(axis=-1), rtol=2e-3, atol=1e-4
  )


def test_one_prototype_may_be_much_longer_than_the_others(arrays):
  """The teacher's probabilities sum to one whatever the lengths."""
  _, teacher, _, theirs = arrays
  theirs = theirs.copy()
  theirs[0] *= 20
  similarities = (teacher @ theirs.T).astype(np.float64)
  given = prototypes.centred(teacher, theirs, 0.04, jnp.zeros(NUM))
  np.testing.assert_allclose(
    given.norm, special.logsumexp(similarities / 0.04, axis=-1), rtol=1e-5
  )


def test_a_student_whose_logits_float32_does_not_hold_gives_nan(arrays):
  """Rather than a wrong number: all are 300 below what one could have."""
  _, teacher, _, theirs = arrays
  student = np.tile(np.eye(WIDTH, dtype=np.float32)[:1], (5, 4, 1))
  rows = np.tile(np.eye(WIDTH, dtype=np.float32)[1:2], (NUM, 1)) * 30
  given = prototypes.centred(teacher, theirs, 0.05, jnp.zeros(NUM))
  found = prototypes.compare(student, rows, 0.1, given)
  assert np.isnan(found.cross_entropy).all()


def test_gradients_are_those_of_whole_arrays(arrays):
  student, teacher, ours, theirs = arrays

  def chunked(student, teacher, ours, theirs):
    given = prototypes.centred(teacher, theirs, 0.05, jnp.zeros(NUM))
    return prototypes.compare(student, ours, 0.1, given).cross_entropy.mean()

  def whole(student, teacher, ours, theirs):
    wanted = jax.nn.softmax(jnp.einsum("bgd,kd->bgk", teacher, theirs) / 0.05)
    logs = jax.nn.log_softmax(jnp.einsum("bvd,kd->bvk", student, ours) / 0.1)
    return -jnp.einsum("bgk,bvk->bgv", wanted, logs).mean()

  found = jax.jit(jax.grad(chunked, argnums=(0, 1, 2, 3)))(*arrays)
  wanted = jax.jit(jax.grad(whole, argnums=(0, 2)))(*arrays)
  for x, y in zip((found[0], found[2]), wanted, strict=True):
    np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6 * np.abs(y).max())
  # The teacher learns nothing.
  assert not np.any(found[1]) and not np.any(found[3])


@pytest.mark.parametrize("how", ["centred", "balanced"])
def test_memory_is_that_of_a_chunk_however_many_prototypes(how):
  """No array holds a number for each pair of a token and a prototype."""

  def loss(student, teacher, rows):
    given = (
      prototypes.centred(teacher, rows, 0.05, jnp.zeros(len(rows)))
      if how == "centred"
      else prototypes.balanced(teacher, rows, 0.05)
    )
    return prototypes.compare(student, rows, 0.1, given).cross_entropy.mean()

  def temporary(num_prototypes):
    arguments = [
      jax.ShapeDtypeStruct(shape, jnp.float32)
      for shape in ((64, 10, WIDTH), (64, 2, WIDTH), (num_prototypes, WIDTH))
    ]
    compiled = jax.jit(jax.grad(loss, argnums=(0, 2))).lower(*arguments)
    return compiled.compile().memory_analysis().temp_size_in_bytes

  few, many = temporary(8192), temporary(65_536)
  # 57,344 prototypes more: 24 bytes of each and some copies, not 640 tokens'.
  assert many - few < 57_344 * WIDTH * 4 * 10


@pytest.mark.parametrize("iterations", [1, 3])
def test_sinkhorn_is_the_scaling_of_a_matrix(iterations):
  logits = RNG.normal(size=(7, 5)).astype(np.float32)
  weights = np.array([1, 0, 3, 1, 2, 0, 1])
  found = dino.sinkhorn(logits, 0.3, iterations, weights=weights)
  rows = np.repeat(logits, weights, axis=0)
  wanted = oracle.sinkhorn(rows, 0.3, iterations)
  np.testing.assert_allclose(
    np.repeat(found, weights, axis=0), wanted, rtol=1e-5, atol=1e-7
  )
  assert not np.any(found[weights == 0])
  # Padding may be anything.
  logits[weights == 0] = [[np.nan], [np.inf]]
  again = dino.sinkhorn(logits, 0.3, iterations, weights=weights)
  np.testing.assert_allclose(again, found, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("largest", [1.0, 20.0])
def test_sinkhorn_is_right_at_low_temperatures(largest):
  logits = RNG.uniform(-largest, largest, size=(40, 30)).astype(np.float32)
  found = np.asarray(dino.sinkhorn(logits, 1e-3))
  logs = logits.astype(np.float64) / 1e-3
  for _ in range(3):
    logs = special.log_softmax(special.log_softmax(logs, axis=0), axis=1)
  np.testing.assert_allclose(found, np.exp(logs), atol=1e-3 * largest)
  np.testing.assert_allclose(found.sum(axis=1), 1, rtol=2e-6)


def test_balanced_prototypes_are_used_alike():
  """Many iterations give every prototype the same share."""
  found = dino.sinkhorn(RNG.normal(size=(12, 4)), 0.5, iterations=200)
  np.testing.assert_allclose(found.sum(axis=0), 3, rtol=1e-3)


def test_tokens_of_no_weight_change_nothing(arrays):
  _, teacher, _, theirs = arrays
  weights = np.ones((5, 2), np.float32)
  weights[3:] = 0
  found = prototypes.balanced(teacher, theirs, 0.05, weights=weights)
  wanted = prototypes.balanced(teacher[:3], theirs, 0.05)
  np.testing.assert_allclose(found.offset, wanted.offset, rtol=1e-4, atol=1e-4)


def test_a_batch_of_padding_alone_gives_finite_numbers():
  rng = np.random.default_rng(0)
  features, rows = (
    rng.standard_normal(shape).astype(np.float32) for shape in ((6, 4), (5, 4))
  )
  found = prototypes.balanced(
    features, rows, 0.04, weights=np.zeros(6, np.float32)
  )
  assert np.isfinite(found.offset).all() and np.isfinite(found.norm).all()
