"""A part of a network that starts from a checkpoint of its own."""

import pathlib

import jax
import numpy as np
import pytest
from etils import epath

import vit_jax
from tests import experiments
from tests.checkpoint import runs
from tests.models import networks
from vit_jax import trees
from vit_jax.config import experiment_file, named_sections, resolve
from vit_jax.data import facts
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.pretrained import initial_model
from vit_jax.rundir.run_directory import RunDirectory
from vit_jax.rundir.timing import Clock
from vit_jax.training import dry_run, experiment
from vit_jax.weights import flat
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import npz

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
VIT = dict(variant="Ti/4", width=24, depth=2, num_heads=2, mlp_dim=32)


def lit(path, **changes):
  """The small run of configs/lit.py, from a checkpoint."""
  config = experiment_file.load("configs/lit.py", "smoke")
  config.init_from = str(path)
  for name, value in changes.items():
    *parents, leaf = name.split("__")
    section = config
    for parent in parents:
      section = section[parent]
    section[leaf] = value
  return initial_model.resolve_architecture(resolve.resolve(config))


def started(config, workdir):
  """The parameters that a run begins with and those of a new one, by path."""
  parts = experiment.build(config, facts.without_data(config))
  fresh = dict(trees.named_leaves(parts.init_state().params))
  with RunDirectory(str(workdir), parts, Clock()) as directory:
    state = directory.restore_or_init()
    directory.finish("finished")
  return dict(trees.named_leaves(state.params)), fresh


def saved(path, network, params=None):
  params = networks.random_params(network) if params is None else params
  model = build.config_of(network)
  if path.suffix == ".npz":
    npz.write(epath.Path(path), Weights("test", model, params))
  else:
    runs.write(path, model, {3: params})
  return params


def started_at_random(network, side=16):
  images = np.zeros((1, side, side, 3), np.uint8)
  return jax.jit(network.init)(jax.random.key(1), images)["params"]


def of_two_towers():
  model = named_sections.section(
    "model",
    name="two_towers",
    variant="Ti/4",
    image_size=16,
    image={key: VIT[key] for key in VIT if key != "variant"},
    text={"width": 24, "depth": 1, "num_heads": 2, "mlp_dim": 16},
  )
  return build.create(model, num_classes=None)


NETWORKS = {
  "vit": lambda: networks.tiny(num_classes=10, image_size=16, **VIT),
  "pre_logits": lambda: networks.tiny(
    num_classes=10, image_size=16, representation_size=20, **VIT
  ),
  "two_towers": of_two_towers,
}


@pytest.mark.parametrize(
  ("name", "form"),
  [("vit", "x.npz"), ("pre_logits", "run"), ("two_towers", "run")],
)
def test_the_image_tower_is_that_of_the_checkpoint(tmp_path, name, form):
  network = NETWORKS[name]()
  params = started_at_random(network) if name == "two_towers" else None
  given = flat.flatten(saved(tmp_path / form, network, params))
  config = lit(tmp_path / form)
  assert config.model.embedding_size == 24
  assert config.model.image_size == 16
  found, fresh = started(config, tmp_path / "new")
  if name != "two_towers":
    given = {f"image/{path}": leaf for path, leaf in given.items()}
  assert found.keys() == fresh.keys()
  for path, leaf in found.items():
    wanted = given[path] if path.startswith("image/") else fresh[path]
    np.testing.assert_array_equal(leaf, wanted, err_msg=path)
  heads = {"image/head", "image/pre_logits"}
  assert not any(path.rpartition("/")[0] in heads for path in found)


def test_positions_are_resized_to_other_images(tmp_path):
  given = flat.flatten(saved(tmp_path / "x.npz", NETWORKS["vit"]()))
  config = lit(tmp_path / "x.npz", keep_model_keys=("image_size",))
  assert config.model.image_size != 16
  found, _ = started(config, tmp_path / "new")
  name = "Transformer/posembed_input/pos_embedding"
  assert found[f"image/{name}"].shape != given[name].shape
  kernel = "embedding/kernel"
  np.testing.assert_array_equal(found[f"image/{kernel}"], given[kernel])


def test_a_tower_of_other_shapes_is_named(tmp_path):
  saved(tmp_path / "x.npz", NETWORKS["vit"]())
  config = lit(tmp_path / "x.npz", model_from_init=False)
  with pytest.raises(UserError, match="do not fit config.model") as caught:
    "".join(dry_run.describe(config, None))
  assert "image/embedding/kernel" in str(caught.value)


def test_a_tower_that_computes_something_else_is_named(tmp_path):
  saved(tmp_path / "x.npz", networks.tiny(num_classes=10, pool="gap", **VIT))
  config = lit(
    tmp_path / "x.npz",
    model_from_init=False,
    model__variant="Ti/4",
    model__embedding_size=24,
    **{f"model__image__{key}": VIT[key] for key in VIT if key != "variant"},
  )
  with pytest.raises(UserError, match="config.model.image.pool is 'cls'"):
    "".join(dry_run.describe(config, None))


def test_a_dry_run_counts_what_is_taken_over(tmp_path):
  given = saved(tmp_path / "x.npz", NETWORKS["vit"]())
  head = trees.num_elements(given.pop("head"))
  text = "".join(dry_run.describe(lit(tmp_path / "x.npz"), None))
  assert head and f"\n{trees.num_elements(given):,} of " in text
  assert "All but image is initialised." in text


def test_keys_of_the_tower_are_the_checkpoints(tmp_path):
  saved(tmp_path / "x.npz", NETWORKS["vit"]())
  with pytest.raises(UserError, match="config.model.image.pool is that of"):
    lit(tmp_path / "x.npz", keep_model_keys=("image.pool",))
  keys = {"keep_model_keys": ("text.depth",), "model__text__depth": 3}
  assert lit(tmp_path / "x.npz", **keys).model.text.depth == 3


@pytest.mark.parametrize(
  ("keys", "words"),
  [
    ({"init_part": "text"}, ["'text' is not a part", "'image'"]),
    ({"init_part": "image", "name": "vit"}, ["'vit'", "has none"]),
  ],
)
def test_a_part_that_the_network_lacks_is_refused(keys, words):
  config = experiment_file.load("configs/lit.py", "smoke")
  config.init_part = keys["init_part"]
  if "name" in keys:
    config = experiment_file.load("configs/quickstart.py", "smoke")
    config.init_part = keys["init_part"]
  with pytest.raises(UserError) as caught:
    resolve.resolve(config)
  assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("name", ["resnet", "swin"])
def test_every_family_of_images_may_be_the_tower(tmp_path, name):
  config = experiment_file.load(f"configs/{name}.py", "smoke")
  model = resolve.resolve(config).model
  network = build.create(model, num_classes=10)
  params = started_at_random(network, model.image_size)
  given = flat.flatten(saved(tmp_path / "run", network, params))
  config = lit(tmp_path / "run")
  assert config.model.image.name == name
  found, _ = started(config, tmp_path / "new")
  of_tower = {k for k in found if k.startswith("image/")}
  assert {f"image/{k}" for k in given if not k.startswith("head/")} == of_tower
  for path in of_tower:
    wanted = given[path.removeprefix("image/")]
    np.testing.assert_array_equal(found[path], wanted, err_msg=path)


def of_clip(**changes):
  """A run on classes that starts from a CLIP, as configs/finetune_folder.py."""
  path = GOLDEN / "huggingface_clip"
  config = experiments.config(
    init_from=str(path),
    init_without=("head/.*",),
    model_from_init=True,
    **changes,
  )
  return initial_model.resolve_architecture(config)


def test_a_single_network_starts_from_the_image_tower_of_a_clip(
  tmp_path, caplog
):
  """Its features, projected, are the embeddings that transformers computes."""
  config = of_clip()
  assert config.model.name == "vit" and config.model.gelu == "quick"
  found, fresh = started(config, tmp_path / "new")
  assert "The image tower is used" in caplog.text
  np.testing.assert_array_equal(found["head/kernel"], fresh["head/kernel"])
  network = build.create(config.model, num_classes=4)
  expected = np.load(GOLDEN / "huggingface_clip" / "expected.npz")
  pooled = vit_jax.features(network, flat.unflatten(found), expected["images"])[
    "pooled"
  ]
  _, whole = vit_jax.load(GOLDEN / "huggingface_clip")
  embedding = pooled @ whole["image_projection"]["kernel"]
  embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)
  np.testing.assert_allclose(embedding, expected["image_embedding"], atol=1e-5)


def test_a_dry_run_counts_the_image_tower_of_a_clip():
  _, whole = vit_jax.load(GOLDEN / "huggingface_clip")
  text = "".join(dry_run.describe(of_clip(), None))
  assert f"\n{trees.num_elements(whole['image']):,} of " in text


def test_two_towers_are_not_trained_on_classes():
  model = of_two_towers()
  config = experiments.config()
  config = config.model_copy(update={"model": build.config_of(model)})
  with pytest.raises(UserError) as caught:
    experiment.build(config, experiments.facts(config))
  for words in ("two towers", '"supervised"', "config.init_from"):
    assert words in str(caught.value)
