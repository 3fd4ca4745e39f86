"""Small networks, their parameters and gradients, and trees from files."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.config import named_sections
from vit_jax.models import build
from vit_jax.models.features import features

NUM_CLASSES = 5


def tiny(num_classes=NUM_CLASSES, **keys):
  """A ViT of 3 layers, 2 x 2 patches of 4 px; keys of `config.model`."""
  defaults = dict(
    variant="Ti/4", width=16, depth=3, num_heads=2, mlp_dim=24, image_size=8
  )
  model = named_sections.section("model", **{**defaults, **keys})
  return build.create(model, num_classes=num_classes)


def tiny_hybrid(num_classes=NUM_CLASSES, **keys):
  """A ViT of a layer on 2 x 2 places of a stem of two units, for 16 px."""
  defaults = dict(stem_blocks=(1, 1), stem_width=32, depth=1, image_size=16)
  return tiny(num_classes, **{"variant": "Ti/8", **defaults, **keys})


def tiny_swin(num_classes=NUM_CLASSES, **keys):
  """A Swin of four blocks in two stages, windows of 2, for images of 16 px.

  The first map has 4 x 4 windows, the second is 4 x 4 places.
  """
  defaults = dict(
    depths=(2, 2), num_heads=(2, 4), width=8, patch_size=2, window_size=2
  )
  model = named_sections.section(
    "model",
    **{"name": "swin", "variant": "T", "image_size": 16, **defaults, **keys},
  )
  return build.create(model, num_classes=num_classes)


def tiny_resnet(num_classes=NUM_CLASSES, **keys):
  """A ResNet of three units in two stages, for images of 16 px."""
  defaults = dict(variant="R50x1", width=32, blocks=(1, 2), image_size=16)
  model = named_sections.section(
    "model", **{"name": "resnet", **defaults, **keys}
  )
  return build.create(model, num_classes=num_classes)


def tiny_convnext(num_classes=NUM_CLASSES, **keys):
  """A ConvNeXt of three blocks in two stages, for images of 16 px."""
  defaults = dict(variant="T", depths=(1, 2), widths=(6, 8), image_size=16)
  model = named_sections.section(
    "model", **{"name": "convnext", **defaults, **keys}
  )
  return build.create(model, num_classes=num_classes)


def tiny_pvt(num_classes=NUM_CLASSES, **keys):
  """A PVT of three blocks in two stages, for images of 16 px."""
  defaults = dict(
    variant="b0",
    depths=(1, 2),
    widths=(4, 6),
    num_heads=(1, 2),
    reductions=(2, 1),
    expansions=(3, 2),
    image_size=16,
  )
  model = named_sections.section("model", **{"name": "pvt", **defaults, **keys})
  return build.create(model, num_classes=num_classes)


def apply(model, params, *inputs, **options):
  """`model.apply`, compiled as a whole, which is quicker than step by step."""
  compiled = jax.jit(functools.partial(model.apply, **options))
  return compiled({"params": params}, *inputs)


def find(model, params, images, names):
  """Features by name, compiled as a whole."""
  return jax.jit(lambda p, x: features(model, p, x, names))(params, images)


def random_params(model, *, seed=0, batch=1):
  """Parameters of the model's shapes, none of them zero."""
  size = model.image_size
  images = jax.ShapeDtypeStruct((batch, size, size, 3), np.float32)
  shapes = jax.eval_shape(model.init, jax.random.key(0), images)["params"]
  rng = np.random.default_rng(seed)

  def leaf(shape):
    fan_in = max(1, int(np.prod(shape.shape[:-1])))
    scale = 0.5 if len(shape.shape) < 2 else 1.5 / np.sqrt(fan_in)
    return (scale * rng.standard_normal(shape.shape)).astype(np.float32)

  return jax.tree.map(leaf, shapes)


def unflatten(flat):
  """{'a/b': x} -> {'a': {'b': x}}."""
  tree = {}
  for name, value in flat.items():
    *parents, last = name.split("/")
    node = tree
    for parent in parents:
      node = node.setdefault(parent, {})
    node[last] = value
  return tree


def stack_layers(params):
  """Parameters of a loop over layers as those of a scan over them."""
  encoder = dict(params["Transformer"])
  names = sorted(
    (name for name in encoder if name.startswith("encoderblock_")),
    key=lambda name: int(name.removeprefix("encoderblock_")),
  )
  layers = [encoder.pop(name) for name in names]
  encoder["encoderblock"] = jax.tree.map(lambda *x: np.stack(x), *layers)
  return {**params, "Transformer": encoder}


def assert_trees_close(left, right, rtol=1e-4, atol=1e-5):
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=atol),
    left,
    right,
  )


def assert_same_gradients(ours, plain, x):
  """Compares the gradients of parameters and input of two networks."""
  variables = plain.init(jax.random.key(0), x)

  def gradients(network):
    def loss(variables, x):
      return jnp.sum(jnp.sin(network.apply(variables, x)))

    return jax.grad(loss, argnums=(0, 1))(variables, x)

  jax.tree.map(
    lambda found, wanted: np.testing.assert_allclose(found, wanted, atol=1e-5),
    gradients(ours),
    gradients(plain),
  )
