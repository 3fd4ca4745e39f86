"""Registers take part in the layers, without positions, and are not pooled."""

import jax
import numpy as np
import pytest

from tests.models import oracle
from tests.models.networks import apply, random_params, tiny
from vit_jax.config import named_sections
from vit_jax.models import build
from vit_jax.models.vit import shapes


def _images(*size):
  rng = np.random.default_rng(4)
  return rng.standard_normal((2, *size, 3)).astype(np.float32)


def _encoded(params, image, rows):
  """Tokens of the last layer in NumPy.

  Args:
    params: Of a network with a class token and registers.
    image: [8, 8, 3].
    rows: Rows of the table of positions, class token first; all others of the
      tokens before the patches have none.
  """
  params = oracle.float64(params)
  kernel, bias = params["embedding"]["kernel"], params["embedding"]["bias"]
  patches = [
    np.tensordot(image[i : i + 4, j : j + 4], kernel, 3) + bias
    for i in (0, 4)
    for j in (0, 4)
  ]
  cls, registers = params["cls"][0], params["registers"][0]
  table = params["Transformer"]["posembed_input"]["pos_embedding"][0]
  x = np.concatenate(
    [cls + (table[:1] if rows else 0), registers, patches + table[rows:]]
  )
  for layer in range(3):
    x = oracle.block(x, params["Transformer"][f"encoderblock_{layer}"])
  return oracle.layer_norm(x, params["Transformer"]["encoder_norm"])


@pytest.mark.parametrize("cls_position", [True, False])
@pytest.mark.parametrize("pool", ["cls", "gap"])
def test_outputs_are_those_of_the_equations(pool, cls_position):
  keys = dict(pool=pool, cls_token=True, cls_position=cls_position)
  model = tiny(registers=3, **keys)
  params = random_params(model)
  images = _images(8, 8)
  found = apply(model, params, images)
  for image, logits in zip(images, found, strict=True):
    x = _encoded(params, image, int(cls_position))
    x = x[0] if pool == "cls" else x[4:].mean(axis=0)
    head = oracle.float64(params["head"])
    wanted = x @ head["kernel"] + head["bias"]
    np.testing.assert_allclose(logits, wanted, rtol=1e-4, atol=1e-4)


def test_an_attention_head_does_not_see_them():
  model = tiny(registers=2, pool="map")
  params = random_params(model)

  def logits(start, images):
    def run(model):
      tokens = model.encode(model.embed(images))
      return model.head(tokens.at[:, start].add(100.0))

    return jax.jit(lambda p: model.apply({"params": p}, method=run))(params)

  images = _images(8, 8)
  wanted = apply(model, params, images)
  np.testing.assert_array_equal(logits(1, images), wanted)
  assert np.abs(logits(2, images) - wanted).max() > 1e-3


def test_they_start_small_and_apart():
  model = tiny(registers=3, width=64, num_heads=2)
  params = model.init(jax.random.key(0), _images(8, 8))["params"]
  assert params["registers"].shape == (1, 3, 64)
  assert params["registers"].std() == pytest.approx(1e-6, rel=0.2)
  assert np.linalg.matrix_rank(params["registers"][0] * 1e6) == 3


def test_a_table_at_every_layer_has_none_for_them():
  keys = dict(pos_embedding_at="every_layer", registers=2)
  model = tiny(**keys)
  params = random_params(model)
  table = params["Transformer"]["posembed_input"]["pos_embedding"]
  assert table.shape == (3, 5, 16)
  images = _images(8, 8)
  first = apply(model, params, images)
  # Their places are between the class token's and the patches'.
  changed = jax.tree.map(np.array, params)
  changed["registers"] = changed["registers"][:, ::-1]
  np.testing.assert_allclose(
    apply(model, changed, images), first, rtol=1e-4, atol=1e-5
  )


@pytest.mark.parametrize(
  "keys",
  [
    {"registers": 4},
    {"registers": 4, "pool": "gap"},
    {"registers": 1, "pos_embedding": "learned_2d", "distillation": "token"},
  ],
)
def test_shapes_are_those_of_the_network(keys):
  model = named_sections.section(
    "model", variant="mu/16", image_size=32, num_classes=5, **keys
  )
  network = build.create(model, num_classes=5)
  made = jax.eval_shape(network.init, jax.random.key(0), _images(32, 32))
  flat = jax.tree_util.tree_flatten_with_path(made["params"])[0]
  found = {"/".join(k.key for k in path): leaf.shape for path, leaf in flat}
  assert found == shapes.shapes(model, 5)
