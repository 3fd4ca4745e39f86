import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from vit_jax import trees
from vit_jax.optim import build, transforms

_SETTINGS = {
  "b1": 0.8,
  "b2": 0.95,
  "eps": 1e-6,
  "momentum": 0.7,
  "weight_decay": 0.3,
}


def _mask(params):
  return trees.map_named(lambda path, _: path.endswith("/kernel"), params)


def _run(tx, params, grads, num_steps=2):
  """Updates of each of a few steps, with gradients that change."""
  update, state, result = jax.jit(tx.update), tx.init(params), []
  for step in range(num_steps):
    scaled = jax.tree.map(lambda g: g * (1 - 0.4 * step), grads)  # noqa: B023
    updates, state = update(scaled, state, params)
    params = optax.apply_updates(params, updates)
    result.append(updates)
  return result


def _build(config, params, name, **settings):
  settings = _SETTINGS | settings
  if name == "adam":
    settings["weight_decay"] = 0.0
  tx, _ = build.build(
    config(name=name, **settings),
    params=params,
    total_steps=100,
    batch_size=8,
    num_examples=None,
  )
  return tx


def _assert_close(actual, expected, **tolerance):
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, **tolerance), actual, expected
  )


@pytest.mark.parametrize(
  ("name", "reference"),
  [
    ("adam", optax.adam(0.1, b1=0.8, b2=0.95, eps=1e-6)),
    (
      "adamw",
      optax.adamw(0.1, b1=0.8, b2=0.95, eps=1e-6, weight_decay=0.3, mask=_mask),
    ),
    ("lion", optax.lion(0.1, b1=0.8, b2=0.95, weight_decay=0.3, mask=_mask)),
    (
      "lars",
      optax.lars(
        0.1,
        weight_decay=0.3,
        weight_decay_mask=_mask,
        trust_ratio_mask=_mask,
        momentum=0.7,
      ),
    ),
  ],
)
def test_optimizer_is_optaxs(name, reference, config, params, grads):
  tx = _build(config, params, name)
  _assert_close(
    _run(tx, params, grads), _run(reference, params, grads), rtol=1e-6
  )


def test_lamb_is_apexs_recurrence_in_numpy(config, params, grads):
  """What does not decay takes Adam's step (`use_nvlamb=False`)."""
  tx = _build(config, params, "lamb")
  updates = _run(tx, params, grads, num_steps=1)[0]

  def wanted(param, grad, decays):
    param, grad = (np.asarray(x, np.float64) for x in (param, grad))
    # After one step the moments, unbiased, are the gradient and its square.
    update = grad / (np.abs(grad) + 1e-6)
    if not decays:
      return -0.1 * update
    update = update + 0.3 * param
    ratio = np.linalg.norm(param) / np.linalg.norm(update)
    return -0.1 * ratio * update

  expected = jax.tree.map(wanted, params, grads, _mask(params))
  _assert_close(updates, expected, rtol=1e-4)


@pytest.mark.parametrize("scanned", [False, True])
def test_lamb_takes_queries_keys_and_values_of_a_layer_as_one(
  scanned, config, stack
):
  """They are `attn.qkv.weight` of the networks that FusedLAMB trained."""
  rng = np.random.default_rng(0)

  def tree(sizes):
    def layer():
      kernels = {
        name: {"kernel": jnp.asarray(size * rng.normal(size=(8, 2, 4)), "f4")}
        for name, size in sizes.items()
      }
      return {"MultiHeadDotProductAttention_0": kernels}

    blocks = {f"encoderblock_{i}": layer() for i in range(2)}
    return {"Transformer": blocks}

  params = tree({"query": 1.0, "key": 2.0, "value": 3.0, "out": 4.0})
  grads = tree({"query": 1.0, "key": 1.0, "value": 0.1, "out": 1.0})
  expected = {}
  for block, layer in params["Transformer"].items():
    (kernels,) = layer.values()
    (of_grads,) = grads["Transformer"][block].values()
    param = {k: np.asarray(v["kernel"], np.float64) for k, v in kernels.items()}
    update = {
      name: g / (np.abs(g) + 1e-6) + 0.3 * param[name]
      for name, g in (
        (k, np.asarray(v["kernel"], np.float64)) for k, v in of_grads.items()
      )
    }
    steps = {}
    for names in (("query", "key", "value"), ("out",)):
      norms = [
        np.linalg.norm(np.stack([one[name] for name in names]))
        for one in (param, update)
      ]
      ratio = norms[0] / norms[1]
      steps |= {n: {"kernel": -0.1 * ratio * update[n]} for n in names}
    expected[block] = {"MultiHeadDotProductAttention_0": steps}
  expected = {"Transformer": expected}
  if scanned:
    params, grads, expected = map(stack, (params, grads, expected))
  updates = _run(_build(config, params, "lamb"), params, grads, num_steps=1)[0]
  _assert_close(updates, expected, rtol=1e-4)


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_without_decay_is_optaxs(nesterov, config, params, grads):
  tx = _build(config, params, "sgd", weight_decay=0.0, nesterov=nesterov)
  reference = optax.sgd(0.1, momentum=0.7, nesterov=nesterov)
  _assert_close(_run(tx, params, grads), _run(reference, params, grads))


def test_sgds_decay_is_decoupled_and_times_the_rate(config, params, grads):
  with_decay = _run(_build(config, params, "sgd"), params, grads, 1)[0]
  without = _run(
    _build(config, params, "sgd", weight_decay=0.0), params, grads, 1
  )[0]
  expected = jax.tree.map(
    lambda update, param, decays: update - 0.1 * 0.3 * param * decays,
    without,
    params,
    _mask(params),
  )
  _assert_close(with_decay, expected, rtol=1e-6, atol=1e-7)


def test_adafactor_is_its_recurrence_in_numpy(config):
  rng = np.random.default_rng(0)
  params = {"head": {"kernel": jnp.asarray(rng.normal(size=(40, 48)), "f4")}}
  grads = rng.normal(size=(3, 40, 48))
  tx = _build(config, params, "adafactor")
  state = tx.init(params)
  rows, columns, mean = np.zeros(40), np.zeros(48), np.zeros((40, 48))
  param = np.asarray(params["head"]["kernel"], np.float64)
  for step, grad in enumerate(grads):
    updates, state = tx.update(
      {"head": {"kernel": jnp.asarray(grad, "f4")}}, state, params
    )
    b2 = min(0.95, 1 - (step + 1.0) ** -0.8)
    rows = b2 * rows + (1 - b2) * (grad**2 + 1e-30).mean(axis=1)
    columns = b2 * columns + (1 - b2) * (grad**2 + 1e-30).mean(axis=0)
    update = grad / np.sqrt(np.outer(rows, columns) / rows.mean())
    update /= max(1, np.sqrt((update**2).mean()))
    mean = 0.8 * mean + 0.2 * update
    np.testing.assert_allclose(
      updates["head"]["kernel"], -0.1 * (mean + 0.3 * param), rtol=1e-4,
      atol=1e-6,
    )  # fmt: skip


@pytest.mark.parametrize("threshold", [None, 1.0, 0.5])
def test_adafactor_clips_to_its_threshold(threshold, config):
  # The second moment lags behind a gradient that grows, so that its RMS is
  # above 1: here 3 / sqrt(1 b2 + 9 (1 - b2)) with b2 = 1 - 2 ** -0.8.
  params = {"head": {"kernel": jnp.ones((4, 4))}}
  tx = _build(
    config,
    params,
    "adafactor",
    b1=0.0,
    weight_decay=0.0,
    clipping_threshold=threshold,
  )
  state = tx.init(params)
  for size in (1.0, 3.0):
    grads = {"head": {"kernel": jnp.full((4, 4), size)}}
    updates, state = tx.update(grads, state, params)
  share = 2**-0.8
  expected = 3 / np.sqrt((1 - share) + 9 * share)
  expected = min(expected, threshold or expected)
  np.testing.assert_allclose(
    updates["head"]["kernel"], np.full((4, 4), -0.1 * expected), rtol=1e-5
  )


@pytest.mark.parametrize("name", ["adamw", "sgd", "lion", "adafactor"])
def test_decay_multipliers_scale_the_decay_of_single_parameters(
  name, config, params
):
  zeros = jax.tree.map(jnp.zeros_like, params)
  tx = _build(
    config,
    params,
    name,
    weight_decay=0.3,
    decay_multipliers=(("head/.*", 100.0), ("embedding/.*", 0.0)),
  )
  (updates,) = _run(tx, params, zeros, 1)
  for path, expected in (
    ("head/kernel", -0.1 * 30.0),
    ("head/bias", 0.0),  # Outside decay_mask.
    ("embedding/kernel", 0.0),
    ("Transformer/encoderblock_1/MlpBlock_0/Dense_0/kernel", -0.1 * 0.3),
  ):
    update, param = (
      dict(trees.named_leaves(x))[path] for x in (updates, params)
    )
    np.testing.assert_allclose(update, expected * param, rtol=1e-5, atol=1e-9)


def test_decay_multipliers_follow_a_scheduled_decay(config, params):
  zeros = jax.tree.map(jnp.zeros_like, params)
  tx = _build(
    config,
    params,
    "adamw",
    weight_decay="linear(0.2, 0.4)",
    decay_multipliers=(("head/.*", 10.0),),
  )
  second = _run(tx, params, zeros, 2)[1]["head"]["kernel"]
  first_param = np.asarray(params["head"]["kernel"]) * (1 - 0.1 * 2.0)
  rate = 10 * (0.2 + 0.2 / 100)
  np.testing.assert_allclose(second, -0.1 * rate * first_param, rtol=1e-4)


@pytest.mark.parametrize("name", sorted(transforms.OPTIMIZERS))
@pytest.mark.parametrize(
  "nothing", [{"decay_mask": ()}, {"decay_multipliers": ((".*", 0.0),)}]
)
def test_a_decay_of_nothing_is_none(name, nothing, config, params):
  zeros = jax.tree.map(jnp.zeros_like, params)
  tx = _build(config, params, name, weight_decay=0.3, **nothing)
  for updates in _run(tx, params, zeros):
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(updates))


def test_muon_is_adamw_outside_the_blocks(config, params, grads):
  muon = _run(_build(config, params, "muon"), params, grads)
  adamw = _run(_build(config, params, "adamw"), params, grads)
  for ours, theirs in zip(muon, adamw, strict=True):
    for name in ("head", "embedding", "cls"):
      _assert_close(ours[name], theirs[name], rtol=1e-6)


def test_muon_decays_its_matrices(config, params):
  zeros = jax.tree.map(jnp.zeros_like, params)
  (updates,) = _run(_build(config, params, "muon"), params, zeros, 1)
  name = ("Transformer", "encoderblock_0", "MlpBlock_0", "Dense_0", "kernel")
  update, param = updates, params
  for key in name:
    update, param = update[key], param[key]
  np.testing.assert_allclose(update, -0.1 * 0.3 * param, rtol=1e-5)


@pytest.mark.parametrize("name", transforms.OPTIMIZERS)
def test_scanned_layers_are_updated_like_looped_ones(
  name, config, params, grads, stack
):
  looped = _run(_build(config, params, name), params, grads)
  stacked_params = stack(params)
  scanned = _run(
    _build(config, stacked_params, name), stacked_params, stack(grads)
  )
  for ours, theirs in zip(scanned, looped, strict=True):
    _assert_close(ours, stack(theirs), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", transforms.OPTIMIZERS)
def test_33_scanned_layers_are_updated_like_looped_ones(name, config, stack):
  # More layers than the 32 from which on an axis is factored by Adafactor.
  rng = np.random.default_rng(0)

  def tree():
    return {
      "Transformer": {
        f"encoderblock_{i:02d}": {
          "Dense_0": {
            "bias": jnp.asarray(rng.normal(size=40), "f4"),
            "kernel": jnp.asarray(rng.normal(size=(32, 40)), "f4"),
          }
        }
        for i in range(33)
      }
    }

  params, grads = tree(), tree()
  looped = _run(_build(config, params, name), params, grads)
  scanned = _run(
    _build(config, stack(params), name), stack(params), stack(grads)
  )
  for ours, theirs in zip(scanned, looped, strict=True):
    _assert_close(ours, stack(theirs), rtol=1e-3, atol=1e-5)


def test_factored_moments_of_scanned_layers_take_no_more_memory(config, stack):
  params = {
    "Transformer": {
      f"encoderblock_{i}": {"kernel": jnp.ones((64, 64))} for i in range(3)
    }
  }
  sizes = [
    trees.num_elements(
      jax.eval_shape(_build(config, tree, "adafactor").init, tree)
    )
    for tree in (params, stack(params))
  ]
  assert sizes[1] <= sizes[0] + 3 * 5  # Counts of each layer.


@pytest.mark.parametrize("name", transforms.OPTIMIZERS)
def test_first_moment_is_stored_as_asked_and_updates_stay_float32(
  name, config, params, grads
):
  tx = _build(config, params, name, mu_dtype="bfloat16")
  updates, state = jax.eval_shape(tx.update, grads, tx.init(params), params)
  num_bfloat16 = sum(
    leaf.size for leaf in jax.tree.leaves(state) if leaf.dtype == jnp.bfloat16
  )
  assert num_bfloat16 == trees.num_elements(params)
  for leaf in jax.tree.leaves(updates):
    assert leaf.dtype == jnp.float32


def test_bfloat16_moments_change_updates_by_their_rounding_only(
  config, params, grads
):
  rounded = _run(
    _build(config, params, "adamw", mu_dtype="bfloat16"), params, grads
  )
  exact = _run(_build(config, params, "adamw"), params, grads)
  _assert_close(rounded, exact, rtol=1e-2, atol=1e-3)
