"""Two-tower networks as a family: sizes, configs, sections and messages."""

import jax
import numpy as np
import pytest

import vit_jax
from tests.models.networks import unflatten
from vit_jax import registry, trees
from vit_jax.config import defaults, named_sections, resolve
from vit_jax.errors import UserError
from vit_jax.models import build, names
from vit_jax.models.features import last_layers
from vit_jax.models.two_towers.shapes import image_tower

FAMILY = registry.FAMILIES.get("two_towers")
TINY = {
  "name": "two_towers",
  "variant": "Ti/8",
  "image_size": 16,
  "image": {"width": 16, "depth": 2, "num_heads": 2, "mlp_dim": 24},
  "text": {
    "width": 16,
    "depth": 2,
    "num_heads": 4,
    "mlp_dim": 20,
    "vocab_size": 50,
    "length": 6,
  },
}


def resolved(**keys):
  config = defaults.default_config()
  config.total_steps = 1
  for name, value in keys.items():
    if isinstance(value, dict):
      config.model[name].update(value)
    else:
      config.model[name] = value
  return resolve.resolve(config)


def tiny(**keys):
  merged = {**TINY, **keys}
  for part in ("image", "text"):
    merged[part] = {**TINY[part], **keys.get(part, {})}
  return resolved(**merged).model


# Parameters of openai/CLIP and google/siglip checkpoints, and of open_clip's
# model profile.
@pytest.mark.parametrize(
  ("name", "params"),
  [
    ("CLIP-B/32", 151_277_313),
    ("CLIP-B/16", 149_620_737),
    ("CLIP-L/14", 427_616_513),
    ("SigLIP-B/16", 203_155_970),
  ],
)
def test_published_networks_have_their_number_of_parameters(name, params):
  model = names.resolve(name)
  assert FAMILY.num_params(model, None) == params


@pytest.mark.parametrize(
  "keys",
  [
    {},
    {"bias_init": -10.0, "image": {"pool": "map"}},
    {"embedding_size": 12, "image_projection": "linear"},
    {"text": {"pool": "map"}, "text_projection": "none"},
    {"text": {"causal": True, "pool": "eot"}},
    {
      "image": {"patch_bias": False, "pre_norm": True, "gelu": "quick"},
      "text_projection": "linear",
    },
    {
      "image": {"name": "convnext", "depths": (1, 1), "widths": (8, 16)},
      "variant": "T",
      "image_size": 32,
    },
  ],
)
def test_a_network_is_what_shapes_and_config_say(keys):
  if "widths" in keys.get("image", {}):
    base = {k: v for k, v in TINY.items() if k != "image"}
    model = resolved(**{**base, **keys}).model
  else:
    model = tiny(**keys)
  network = build.create(model, num_classes=None)
  side = model.image_size
  params = jax.eval_shape(
    lambda: network.init(
      jax.random.key(0), np.zeros((1, side, side, 3), np.uint8)
    )
  )["params"]
  found = {name: leaf.shape for name, leaf in trees.named_leaves(params)}
  assert found == FAMILY.shapes(model, None)
  again = build.create(build.config_of(network), num_classes=None)
  assert again == network


def test_keys_of_the_device_reach_the_image_tower():
  model = tiny(image={"attention": "flash"}, remat="full")
  found = model.updated(attention="xla", remat="none")
  assert (found.image.attention, found.remat) == ("xla", "none")
  assert found.image.width == model.image.width


def test_the_text_tower_may_compute_in_another_dtype():
  model = tiny(dtype="bfloat16", text={"dtype": "float32"})
  network = build.create(model, num_classes=None)
  assert (network.image.dtype, network.text.dtype) == ("bfloat16", "float32")
  assert build.config_of(network).text.dtype == "float32"


def test_the_text_tower_follows_the_dtype_of_the_model():
  model = tiny(dtype="bfloat16")
  network = build.create(model, num_classes=None)
  assert network.text.dtype == "bfloat16"
  followed = build.config_of(network).updated(dtype="float32")
  assert build.create(followed, num_classes=None).text.dtype == "float32"


def test_a_config_survives_its_file():
  config = resolved(**TINY)
  assert resolve.load(resolve.dump(config)) == config


@pytest.mark.parametrize(
  ("keys", "message"),
  [
    ({"image": {"poool": "cls"}}, "poool"),
    ({"image": {"name": "vitt"}}, "'vitt' is not known. Did you mean 'vit'?"),
    ({"image": {"image_size": 32}}, "set config.model.image_size"),
    ({"image": {"pool": "none"}}, "config.model.image.pool = 'none'"),
    ({"text": {"variant": "Bb"}}, "Did you mean 'B'?"),
    ({"text": {"num_heads": 3}}, "config.model.text.num_heads = 3"),
    ({"embedding_size": 12}, "config.model.image_projection='linear'"),
  ],
)
def test_mistakes_are_answered_by_a_sentence(keys, message):
  with pytest.raises(UserError, match=message.replace("?", r"\?")):
    model = tiny(**keys)
    build.check(model)


def test_a_tower_cannot_be_two_towers():
  config = resolved(name="two_towers", image={"name": "two_towers"})
  with pytest.raises(UserError, match="is not an image tower"):
    build.check(config.model)


@pytest.fixture(scope="module")
def towers():
  model = tiny(bias_init=-10.0, image={"pool": "map"})
  network = build.create(model, num_classes=None)
  images = np.zeros((1, 16, 16, 3), np.uint8)
  return network, network.init(jax.random.key(0), images)["params"]


def test_embeddings_have_unit_length_and_logits_compare_all(towers):
  network, params = towers
  rng = np.random.default_rng(0)
  images = rng.integers(0, 255, (3, 16, 16, 3)).astype(np.uint8)
  text = rng.integers(0, 50, (5, 6)).astype(np.int32)
  found = network.apply({"params": params}, images, text)
  assert set(found) == {"image_embedding", "text_embedding", "logits"}
  for name, rows in (("image_embedding", 3), ("text_embedding", 5)):
    assert found[name].shape == (rows, 16)
    lengths = np.linalg.norm(found[name], axis=-1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-6)
  wanted = 10 * found["image_embedding"] @ found["text_embedding"].T - 10
  np.testing.assert_allclose(found["logits"], wanted, rtol=1e-5)


@pytest.mark.parametrize("given", ["image", "text"])
def test_one_tower_gives_its_embedding_alone(towers, given):
  network, params = towers
  images = np.zeros((2, 16, 16, 3), np.uint8) if given == "image" else None
  text = np.zeros((2, 6), np.int32) if given == "text" else None
  found = network.apply({"params": params}, images=images, text=text)
  assert set(found) == {f"{given}_embedding"}


def test_a_causal_tower_reads_no_token_after_the_end():
  model = tiny(text={"causal": True, "pool": "eot", "eot_token": 49})
  network = build.create(model, num_classes=None)
  images = np.zeros((1, 16, 16, 3), np.uint8)
  params = network.init(jax.random.key(0), images)["params"]
  texts = np.array([[3, 4, 49, 0, 0, 0], [3, 4, 49, 7, 49, 9]], np.int32)
  one, other = network.apply({"params": params}, None, texts)["text_embedding"]
  np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize(
  "text",
  [
    {},
    {"causal": True, "pool": "eot"},
    {"causal": True, "pool": "eot", "eot_token": 49, "scan_layers": True},
    {"pool": "mean"},
  ],
  ids=str,
)
@pytest.mark.parametrize("remat", ["none", "named"])
def test_words_that_nothing_reads_change_neither_value_nor_gradient(
  text, remat
):
  """The last layer computes the token that is read, or all if asked for."""
  network = build.create(tiny(text=text, remat=remat), num_classes=None)
  params = network.init(jax.random.key(0))["params"]
  texts = np.array([[3, 4, 49, 0, 0, 0], [5, 49, 7, 6, 2, 49]], np.int32)

  def loss(params, collections):
    found = network.apply({"params": params}, None, texts, mutable=collections)
    embedding = (found[0] if collections else found)["text_embedding"]
    return jax.numpy.sum(embedding * np.cos(np.arange(16))[None])

  def gradients(collections):
    return jax.value_and_grad(lambda p: loss(p, collections))(params)

  jax.tree.map(
    lambda one, all_: np.testing.assert_allclose(one, all_, 1e-4, 1e-6),
    gradients(False),
    gradients(["intermediates"]),
  )


def test_a_published_name_makes_a_network():
  model, params = vit_jax.create_model("SigLIP-Ti/16", image_size=32)
  assert model.image.pool == "map"
  assert params["text_projection"]["kernel"].shape == (192, 192)
  np.testing.assert_allclose(params["logit_bias"], -10)
  # big_vision's `get_posemb`: normal(1 / sqrt(width)).
  positions = params["image"]["Transformer"]["posembed_input"]["pos_embedding"]
  assert np.std(positions) == pytest.approx(192**-0.5, rel=0.1)


def test_the_last_layers_are_those_of_the_image_tower():
  model = named_sections.section("model", **TINY)
  assert FAMILY.num_class_layers(model) == 2
  network = build.create(model, num_classes=None)
  rng = np.random.default_rng(0)
  shapes = FAMILY.shapes(model, None)
  params = unflatten({path: rng.normal(size=s) for path, s in shapes.items()})
  images = rng.integers(0, 256, (3, 16, 16, 3), np.uint8)
  found = last_layers(network, params, images, 2)
  tower = build.create(image_tower(model), num_classes=None)
  wanted = last_layers(tower, params["image"], images, 2)
  for ours, theirs in zip(found, wanted, strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
