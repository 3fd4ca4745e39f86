import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from vit_jax.config import named_sections
from vit_jax.errors import UserError
from vit_jax.optim import build


def _build(config, params):
  tx, _ = build.build(
    config, params=params, total_steps=100, batch_size=8, num_examples=80
  )
  return tx


def test_gradients_are_clipped_to_the_global_norm(config, params, grads):
  tx = _build(config(name="sgd", grad_clip_norm=0.5, momentum=0.0), params)
  updates, _ = jax.jit(tx.update)(grads, tx.init(params), params)
  np.testing.assert_allclose(optax.global_norm(updates), 0.1 * 0.5, rtol=1e-5)
  small = jax.tree.map(lambda g: g * 1e-4, grads)
  updates, _ = jax.jit(tx.update)(small, tx.init(params), params)
  np.testing.assert_allclose(
    optax.global_norm(updates), 0.1 * optax.global_norm(small), rtol=1e-5
  )


def test_rate_follows_the_schedule_it_returns(config, params, grads):
  tx, scalars = build.build(
    config({"base_lr": 0.2, "warmup_steps": 4}, name="sgd", momentum=0.0),
    params=params,
    total_steps=10,
    batch_size=8,
    num_examples=None,
  )
  state, update = tx.init(params), jax.jit(tx.update)
  for step in range(10):
    updates, state = update(grads, state, params)
    np.testing.assert_allclose(
      updates["cls"], -scalars["learning_rate"](step) * grads["cls"], rtol=1e-6
    )


def test_only_masked_parameters_decay(config, params):
  zeros = jax.tree.map(jnp.zeros_like, params)
  tx = _build(config(weight_decay=0.5, decay_mask=("head/.*", "cls")), params)
  updates, _ = jax.jit(tx.update)(zeros, tx.init(params), params)
  np.testing.assert_allclose(
    updates["head"]["bias"], -0.05 * params["head"]["bias"]
  )
  np.testing.assert_allclose(updates["cls"], -0.05 * params["cls"])
  assert not updates["embedding"]["kernel"].any()


def test_by_default_exactly_the_kernels_decay(config, params):
  zeros = jax.tree.map(jnp.zeros_like, params)
  tx = _build(config(weight_decay=0.5), params)
  updates, _ = jax.jit(tx.update)(zeros, tx.init(params), params)
  decayed = {
    jax.tree_util.keystr(path, simple=True, separator="/")
    for path, update in jax.tree_util.tree_leaves_with_path(updates)
    if update.any()
  }
  kernels = {
    jax.tree_util.keystr(path, simple=True, separator="/")
    for path, _ in jax.tree_util.tree_leaves_with_path(params)
    if path[-1].key == "kernel"
  }
  assert decayed == kernels


@pytest.mark.parametrize("name", ["adamw", "lars"])
def test_factors_scale_updates_and_decay_alike(name, config, params, grads):
  plain = _build(config(name=name, weight_decay=0.1), params)
  scaled = _build(
    config(
      name=name,
      weight_decay=0.1,
      layer_decay=0.5,
      lr_multipliers=(("head/.*", 3.0),),
    ),
    params,
  )
  plain_state, scaled_state = plain.init(params), scaled.init(params)
  update_plain, update_scaled = jax.jit(plain.update), jax.jit(scaled.update)
  for _ in range(2):
    expected, plain_state = update_plain(grads, plain_state, params)
    updates, scaled_state = update_scaled(grads, scaled_state, params)
  for get, factor in [
    (lambda tree: tree["head"]["kernel"], 3),
    (lambda tree: tree["embedding"]["kernel"], 0.0625),
    (lambda tree: tree["Transformer"]["encoder_norm"]["scale"], 1),
    (lambda tree: tree["Transformer"]["encoderblock_1"]["LayerNorm_0"], 0.25),
  ]:
    jax.tree.map(
      lambda a, b, factor=factor: np.testing.assert_allclose(
        a, factor * b, rtol=1e-5
      ),
      get(updates),
      get(expected),
    )


def test_frozen_parameters_have_no_state_updates_or_part_in_the_norm(
  config, params, grads
):
  tx = _build(
    config(
      name="sgd",
      grad_clip_norm=0.5,
      weight_decay=0.1,
      decay_mask=("embedding/.*",),
      lr_multipliers=(("head/.*", 1.0), (".*", 0.0)),
    ),
    params,
  )
  state = tx.init(params)
  moments = [leaf for leaf in jax.tree.leaves(state) if leaf.ndim]
  assert sorted(leaf.shape for leaf in moments) == [(5,), (8, 5)]
  updates, _ = jax.jit(tx.update)(grads, state, params)
  for name in ("cls", "embedding", "Transformer"):
    assert not any(leaf.any() for leaf in jax.tree.leaves(updates[name]))
  np.testing.assert_allclose(
    optax.global_norm(updates["head"]), 0.1 * 0.5, rtol=1e-5
  )


def test_shapes_alone_are_enough(config, params):
  shapes = jax.eval_shape(lambda: params)
  tx = _build(config(layer_decay=0.9, weight_decay=0.1), shapes)
  assert jax.tree.structure(
    jax.eval_shape(tx.init, shapes)
  ) == jax.tree.structure(tx.init(params))


@pytest.mark.parametrize(
  ("optimizer", "message"),
  [
    ({"name": "adamww"}, "optimizer.name = 'adamww' is not known.*'adamw'"),
    ({"name": "adam", "weight_decay": 0.1}, "weight_decay = 0.1 has no effect"),
    ({"decay_mask": ("(",)}, r"decay_mask: '\(' is not a regular expression"),
    (
      {"lr_multipliers": (("*", 1.0),)},
      r"lr_multipliers: '\*' is not a regular",
    ),
  ],
)
def test_bad_config_is_a_sentence_before_there_are_parameters(
  optimizer, message, config
):
  with pytest.raises(UserError, match=message):
    build.check(config(**optimizer))


@pytest.mark.parametrize(
  ("optimizer", "message"),
  [
    ({"decay_mask": (".*/kernels",)}, "decay_mask: '.*/kernels' matches no"),
    ({"lr_multipliers": (("neck", 1.0),)}, "lr_multipliers: 'neck' matches no"),
    ({"lr_multipliers": ((".*", 0.0),)}, "freezes every parameter"),
  ],
)
def test_bad_config_is_a_sentence_once_there_are_parameters(
  optimizer, message, config, params
):
  build.check(config(**optimizer))
  with pytest.raises(UserError, match=message):
    _build(config(**optimizer), params)


def test_muon_finds_no_matrices_in_a_resnet(config):
  resnet = named_sections.section("model", name="resnet", variant="R50x1")
  muon = config(name="muon").model_copy(update={"model": resnet})
  with pytest.raises(UserError, match="'muon'.*'resnet' has none"):
    build.check(muon)


def test_warmup_longer_than_the_run_is_a_sentence_without_data(config):
  schedule = {"warmup_steps": "1M examples", "base_lr": 1.0}
  with pytest.raises(UserError, match="'1M examples' is 244 steps"):
    build.check(config(schedule))
  build.check(config({"warmup_steps": "1M epochs", "base_lr": 1.0}))


def test_checking_needs_neither_jax_nor_optax():
  code = (
    "import sys\n"
    "from vit_jax.config import schema\n"
    "from vit_jax.objectives import build as objectives\n"
    "from vit_jax.optim import build as optim\n"
    "from vit_jax.data import features\n"
    "config = schema.Config(total_steps=10)\n"
    "optim.check(config)\n"
    "objectives.check(config, features.check(config))\n"
    "print([m for m in ('jax', 'optax', 'tensorflow') if m in sys.modules])"
  )
  result = subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, check=True
  )
  assert result.stdout.strip() == "[]"
