"""The architecture of a run that starts from a checkpoint."""

import shutil

import pytest

from tests import experiments
from vit_jax.config import named_sections, resolve, schema
from vit_jax.errors import UserError
from vit_jax.pretrained import initial_model
from vit_jax.train import train

FOUND = named_sections.section(
  "model",
  variant="S/8",
  depth=3,
  num_classes=7,
  image_size=40,
  pool="gap",
  representation_size=5,
  head_bias_init=-10.0,
  dropout_rate=0.1,
  gelu="exact",
  normalize="imagenet",
  layer_norm_eps=1e-12,
)


def config(*keep, **model):
  return schema.Config(
    model=named_sections.section("model", **model),
    keep_model_keys=keep,
    init_from="x",
  )


def test_what_the_parameters_compute_is_the_files():
  model = initial_model.merge(
    config(variant="B/16", width=32, image_size=224, pool="map"), FOUND
  )
  for key in ("variant", "width", "depth", "image_size", "pool", "gelu"):
    assert getattr(model, key) == getattr(FOUND, key)
  assert model.normalize == "imagenet"
  assert model.layer_norm_eps == 1e-12


def test_how_to_train_and_the_head_are_the_configs():
  model = initial_model.merge(
    config(dtype="bfloat16", remat="full", stochastic_depth_rate=0.2), FOUND
  )
  assert (model.dtype, model.remat) == ("bfloat16", "full")
  assert (model.dropout_rate, model.stochastic_depth_rate) == (0.0, 0.2)
  assert model.num_classes is model.representation_size is None
  assert model.head_bias_init == 0


def test_keys_that_are_kept_stand_even_at_their_defaults():
  model = initial_model.merge(
    config("image_size", "gelu", image_size=64, gelu="tanh"), FOUND
  )
  assert (model.image_size, model.gelu, model.pool) == (64, "tanh", "gap")


def test_a_kept_variant_brings_its_numbers():
  model = initial_model.merge(config("variant", variant="B/16"), FOUND)
  assert (model.variant, model.depth) == ("B/16", None)


def test_a_kept_key_that_does_not_exist_is_a_sentence():
  wrong = config("image_sise").model_copy(update={"model_from_init": True})
  with pytest.raises(UserError, match="did you mean 'image_size'"):
    initial_model.resolve_architecture(wrong)


def towers(name="two_towers", **keys):
  return named_sections.section("model", name=name, **keys)


CLIP = towers(
  image={"gelu": "quick", "pool": "gap"}, text={"length": 77, "depth": 3}
)


def resolved(given, *keep, found=CLIP):
  wanted = schema.Config(model=given, keep_model_keys=keep, init_from="x")
  wanted = wanted.model_copy(update={"model_from_init": True})
  return initial_model.of_checkpoint(wanted, found).model


def test_kept_keys_of_the_towers_are_the_configs():
  given = towers(image={"gelu": "tanh"}, text={"length": 16})
  model = resolved(given, "image.gelu", "text.length")
  assert (model.image.gelu, model.image.pool) == ("tanh", "gap")
  assert (model.text.length, model.text.depth) == (16, 3)
  assert resolved(given) == CLIP
  assert resolved(given, "text").text == given.text
  assert resolved(given, "image").image == given.image


def test_a_kept_variant_of_a_tower_brings_its_numbers():
  given = schema.Config(
    model=towers(text={"variant": "M"}),
    keep_model_keys=("text.variant",),
    init_from="x",
  )
  text = initial_model.merge(given, CLIP).text
  assert (text.variant, text.depth, text.length) == ("M", None, 77)


@pytest.mark.parametrize(
  ("key", "found", "words"),
  [
    ("image.gleu", CLIP, "did you mean 'image.gelu'"),
    ("text.pol", CLIP, "did you mean 'text.pool'"),
    ("pool.gelu", CLIP, "is not a key of config.model"),
    ("image.gelu", FOUND, "config.model.image.gelu is a key of .*'two_towers'"),
  ],
)
def test_a_kept_key_that_no_tower_has_is_a_sentence(key, found, words):
  with pytest.raises(UserError, match=words):
    resolved(towers(), key, found=found)


def test_without_init_from_the_config_counts():
  plain = config().model_copy(
    update={"init_from": None, "model_from_init": True}
  )
  assert initial_model.resolve_architecture(plain) == plain


def test_what_is_looked_at_keeps_its_head_too():
  wanted = config("image_size", image_size=64)
  assert initial_model.of_checkpoint(wanted, FOUND) == wanted
  wanted = wanted.model_copy(update={"model_from_init": True})
  model = initial_model.of_checkpoint(wanted, FOUND).model
  assert model == FOUND.model_copy(update={"image_size": 64})


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
  """A run of another architecture than that of `experiments.config`."""
  workdir = tmp_path_factory.mktemp("pretrained")
  train(
    experiments.config(total_steps=2, model__pool="gap", model__depth=1),
    str(workdir),
  )
  return workdir


def test_a_run_goes_on_when_what_it_started_from_is_gone(pretrained, tmp_path):
  source, workdir = tmp_path / "source", tmp_path / "run"
  shutil.copytree(pretrained, source)
  wanted = {
    "init_from": str(source),
    "init_without": ("head/.*",),
    "model_from_init": True,
    "keep_model_keys": ("image_size",),
    "model__image_size": 16,
    "train__dataset": "generated:classes=3,size=16,examples=64",
    "schedule__decay": "constant",
  }
  train(experiments.config(total_steps=2, **wanted), str(workdir))
  shutil.rmtree(source)
  longer = {"total_steps": 4, "allow_change": "total_steps"}
  train(experiments.config(**wanted, **longer), str(workdir))
  model = resolve.load((workdir / "config.json").read_text()).model
  assert (model.pool, model.depth, model.image_size) == ("gap", 1, 16)
  assert (workdir / "checkpoints" / "4").exists()
  other = {**wanted, "keep_model_keys": ("image_size", "depth")}
  with pytest.raises(UserError, match="keep_model_keys: was"):
    train(experiments.config(**other, **longer), str(workdir))


def test_a_run_keeps_the_attention_that_it_began_with(pretrained, tmp_path):
  workdir = tmp_path / "run"
  shutil.copytree(pretrained, workdir)
  auto = experiments.config()
  assert auto.model.attention == "auto"
  # A run on CPUs has settled it, and keeps it on any device.
  kept = initial_model.keep_attention(auto, str(workdir))
  assert kept.model.attention == "xla"

  text = (workdir / "config.json").read_text()
  assert '"attention": "xla"' in text
  text = text.replace('"attention": "xla"', '"attention": "cudnn"')
  (workdir / "config.json").write_text(text)
  kept = initial_model.keep_attention(auto, str(workdir))
  assert kept.model.attention == "cudnn"
  with pytest.raises(UserError, match="allow_change='model.attention'"):
    train(auto, str(workdir))


def test_attention_is_kept_only_where_that_was_left_open(pretrained):
  asked = experiments.config(model__attention="flash")
  kept = initial_model.keep_attention(asked, str(pretrained))
  assert kept.model.attention == "flash"
  for allowed in ("model.attention", "seed, config.model"):
    anew = experiments.config(allow_change=allowed)
    kept = initial_model.keep_attention(anew, str(pretrained))
    assert kept.model.attention == "auto"


def test_attention_is_not_kept_without_a_run(tmp_path):
  auto = experiments.config()
  assert initial_model.keep_attention(auto, None) == auto
  assert initial_model.keep_attention(auto, str(tmp_path / "new")) == auto
