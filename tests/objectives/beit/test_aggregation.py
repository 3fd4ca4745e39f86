"""BEiT v2's prediction from the class token, beside the released code."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.objectives.beit import released
from tests.objectives.beit import test_objective as objectives
from tests.weights import torch_zip
from vit_jax import trees
from vit_jax.config import pixels
from vit_jax.errors import UserError
from vit_jax.objectives import build
from vit_jax.weights import files, surgery

WIDTH, DEPTH, HEADS, EARLY = 32, 3, 4, 2
NETWORK = dict(
  width=WIDTH,
  depth=DEPTH,
  num_heads=HEADS,
  mlp_dim=32,
  key_bias=False,
  pos_embedding="relative_bias",
  pos_embedding_at="every_layer_shared",
  layer_scale=0.5,
  gelu="exact",
  normalize="imagenet",
)
config = functools.partial(objectives.config, head_layers=2, early_layers=EARLY)


@functools.cache
def published():
  """State dict as in beitv2_base_patch16_224_pt1k.pth."""
  draw = functools.partial(
    released.random_state, WIDTH, side=4, num_heads=HEADS, layer_scale=0.5
  )
  state, added = draw(depth=DEPTH), draw(depth=2)
  state |= {
    f"cls_pt_layers.{name.removeprefix('blocks.')}": x
    for name, x in added.items()
    if name.startswith("blocks.")
  }
  rng = np.random.default_rng(0)
  return state | {
    "mask_token": np.float32(rng.standard_normal((1, 1, WIDTH))),
    "lm_head.weight": np.float32(rng.standard_normal((512, WIDTH)) / 4),
    "lm_head.bias": np.float32(rng.standard_normal(512)),
  }


def released_losses(state, images, mask, tokens):
  """Both losses and accuracies of modeling_pretrain.py on masked patches."""
  mean, deviation = pixels.parse("imagenet")
  x = released.patches(state, (images / 255 - mean) / deviation)
  x = np.where(mask[:, :, None], state["mask_token"], x)
  x, bias = released.with_class_token(state, x), released.shared_bias(state, 4)
  for layer in range(DEPTH):
    x = released.block(state, f"blocks.{layer}", x, HEADS, bias)
    if layer + 1 == EARLY:
      early = x[:, 1:]
  again = np.concatenate([x[:, :1], early], axis=1)
  for layer in range(2):
    name = f"cls_pt_layers.{layer}"
    again = released.block(state, name, again, HEADS, bias)
  for tokens_after in (x, again):
    found = released.layer_norm(state, "norm", tokens_after)[:, 1:][mask]
    logits = released.linear(state, "lm_head", found)
    norm = np.log(np.exp(logits).sum(axis=1))
    yield (norm - logits[np.arange(len(tokens)), tokens]).mean()
    yield (logits.argmax(axis=1) == tokens).mean()


@pytest.mark.parametrize("scan", [False, True])
@pytest.mark.parametrize("remat", ["none", "full"])
def test_losses_of_a_published_file_are_those_of_the_released_code(
  tmp_path, scan, remat
):
  path = torch_zip.save(tmp_path / "beitv2.pth", published())
  model = NETWORK | {"scan_layers": scan, "remat": remat}
  settings = config(model=model)
  objective, params, batch = objectives.started(settings)
  shapes = {n: x.shape for n, x in trees.named_leaves(params)}
  weights = files.read(path)
  assert weights.model.normalize == "imagenet"
  fitted = surgery.fit(weights, settings.model, shapes)
  assert not fitted.fresh
  found = objectives.loss_of(objective, fitted.params, batch)
  mask = np.asarray(batch["mask"])
  tokens = objectives.mean_colours(objectives.images_of())[mask]
  first, first_right, second, second_right = released_losses(
    published(), objectives.images_of(), mask, tokens
  )
  np.testing.assert_allclose(found["loss"], first + second, rtol=1e-5)
  np.testing.assert_allclose(found["aggregation_loss"], second, rtol=1e-5)
  np.testing.assert_allclose(found["accuracy"], first_right, atol=1e-6)
  np.testing.assert_allclose(
    found["aggregation_accuracy"], second_right, atol=1e-6
  )


def fitted_to_added_layers(path):
  settings = config(model=NETWORK)
  _, params, _ = objectives.started(settings)
  shapes = {n: x.shape for n, x in trees.named_leaves(params)}
  return surgery.fit(files.read(path), settings.model, shapes)


def test_layers_that_a_file_lacks_start_anew(tmp_path):
  state = {n: x for n, x in published().items() if "cls_pt" not in n}
  fitted = fitted_to_added_layers(torch_zip.save(tmp_path / "x.pth", state))
  assert {name.partition("/")[0] for name in fitted.fresh} == {"aggregation"}
  assert "initialised: aggregation." in " ".join(fitted.notes)


def test_layers_with_a_head_of_their_own_start_anew(tmp_path):
  """modeling_pretrain.py with shared_lm_head=False."""
  state = published() | {
    "cls_pt_norm.weight": np.ones(WIDTH),
    "cls_pt_norm.bias": np.zeros(WIDTH),
    "cls_pt_lm_head.weight": np.ones((512, WIDTH)),
    "cls_pt_lm_head.bias": np.ones(512),
  }
  path = torch_zip.save(tmp_path / "x.pth", state)
  weights = files.read(path)
  shared = files.read(torch_zip.save(tmp_path / "shared.pth", published()))
  assert weights.model == shared.model
  jax.tree.map(np.testing.assert_array_equal, weights.params, shared.params)
  assert "shared_lm_head=False" in " ".join(weights.assumed)
  fitted = fitted_to_added_layers(path)
  assert {name.partition("/")[0] for name in fitted.fresh} == {"aggregation"}


def test_a_damaged_added_layer_is_named_as_in_the_file(tmp_path):
  name = "cls_pt_layers.1.attn.qkv.weight"
  state = published() | {name: published()[name][1:]}
  path = torch_zip.save(tmp_path / "beitv2.pth", state)
  with pytest.raises(UserError, match=f"^{path}: '{name}' is of shape"):
    files.read(path)


def test_the_added_layers_learn():
  model = {"depth": DEPTH}
  objective, params, batch = objectives.started(config(model=model))
  plain, _, _ = objectives.started(objectives.config(model=model))

  def gradient(objective):
    def loss(params):
      constants = objective.constants.params
      rngs = objectives.RNGS
      return objective.loss(params, constants, {}, batch, rngs, 0)[0]

    return jax.jit(jax.grad(loss))(params)

  with_added, without = gradient(objective), gradient(plain)
  assert all(not np.any(x) for x in jax.tree.leaves(without["aggregation"]))
  assert all(np.any(x) for x in jax.tree.leaves(with_added["aggregation"]))


def test_the_added_layers_start_as_in_the_released_code():
  """As PyTorch's linear layers: they are made after all others started."""
  _, params, _ = objectives.started(config(model=NETWORK))
  for i in range(2):
    found = params["aggregation"][f"encoderblock_{i}"]
    attention = found["MultiHeadDotProductAttention_0"]
    mlp, layer = found["MlpBlock_0"], EARLY + i + 1
    bound = WIDTH**-0.5
    for part, divisor in (
      (attention["query"], 1),
      (attention["value"], 1),
      (attention["out"], np.sqrt(2 * layer)),
      (mlp["Dense_0"], 1),
      (mlp["Dense_1"], np.sqrt(2 * layer)),
    ):
      largest = np.abs(part["kernel"]).max() * divisor
      assert 0.98 * bound < largest <= bound * (1 + 1e-6)
      # Of a uniform distribution.
      deviation = np.std(part["kernel"]) * divisor
      np.testing.assert_allclose(deviation, bound / np.sqrt(3), rtol=0.06)
    for part in (attention["out"], mlp["Dense_0"], mlp["Dense_1"]):
      assert 0.8 * bound < np.abs(part["bias"]).max() <= bound
    assert not np.any(attention["query"]["bias"])
    np.testing.assert_array_equal(found["layer_scale_0"], np.float32(0.5))
  first, second = (params["aggregation"][f"encoderblock_{i}"] for i in (0, 1))
  kernels = [x["MlpBlock_0"]["Dense_0"]["kernel"] for x in (first, second)]
  assert np.any(kernels[0] != kernels[1])


def test_stochastic_depth_continues_after_the_early_layer():
  """Layer 3 of 4 skips two thirds of its rate; a copy of it does as well."""
  model = NETWORK | dict(depth=4, stochastic_depth_rate=0.9)
  settings = config(model=model, batch_size=64)
  objective, params, batch = objectives.started(settings)
  constants = objective.constants.params

  def loss(params, batch):
    return objective.loss(params, constants, {}, batch, objectives.RNGS, 0)[0]

  # An image that skips both branches of a layer has no gradient in it.
  weights = jnp.where(batch["weights"] > 0, 1.0, 0.0)

  def gradient(row):
    one = {**batch, "weights": weights * (jnp.arange(64) == row)[:, None]}
    grads = jax.grad(loss)(params, one)["aggregation"]
    return [
      jnp.any(grads[f"encoderblock_{i}"]["layer_scale_1"]) for i in (0, 1)
    ]

  found = np.array(jax.lax.map(jax.jit(gradient), jnp.arange(64)))
  kept = found.mean(axis=1)
  # Rates 0.6 and 0.9.
  np.testing.assert_allclose(kept, [0.4, 0.1], atol=0.13)


def test_its_cost_is_that_of_its_layers_and_of_a_second_prediction():
  plain = build.forward_flops(
    objectives.config(model=NETWORK), num_classes=None
  )
  found = build.forward_flops(config(model=NETWORK), num_classes=None)
  tokens, read = 17, 6
  layer = 4 * tokens * WIDTH**2 + 2 * tokens**2 * WIDTH
  mlp = 2 * WIDTH * 32
  added = 2 * layer + (tokens + read) * mlp + read * WIDTH * 512
  # The class token passes the last MLP too.
  assert found - plain == 2 * (added + mlp)


@pytest.mark.parametrize(
  ("model", "objective", "words"),
  [
    ({}, {"early_layers": 4}, ["early_layers = 4", "3 layers", "at most 2"]),
    ({}, {"early_layers": 3}, ["early_layers = 3", "3 layers", "at most 2"]),
    (
      {"pos_embedding": "learned_1d", "pos_embedding_at": "stem"}
      | {"pool": "gap"},
      {},
      ["head_layers = 2", "pool = 'gap'", "cls_token=True"],
    ),
    (
      {"pos_embedding_at": "every_layer"},
      {},
      ["head_layers = 2", "'every_layer'", "'every_layer_shared'"],
    ),
    (
      {"pos_embedding": "none", "pos_embedding_at": "stem", "rope": True}
      | {"num_heads": 2},
      {},
      ["head_layers = 2", "rope = True", "rope=False"],
    ),
  ],
)
def test_what_the_layers_cannot_follow_is_refused(model, objective, words):
  with pytest.raises(UserError) as error:
    objectives.check(config(model=NETWORK | model, **objective))
  for word in words:
    assert word in str(error.value)
