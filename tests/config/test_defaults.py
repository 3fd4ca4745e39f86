"""The ConfigDict that experiment files build on."""

import pytest

from vit_jax.config import defaults, named_sections, resolve, schema


def keys(model, prefix=""):
  for name, field in model.model_fields.items():
    if model is schema.Config and name in ("model", "objective"):
      for section in named_sections.sections(name).values():
        yield from keys(section, f"{name}.")
    elif isinstance(field.default, schema.Model):  # A part of any family.
      for section in named_sections.sections("model").values():
        if section is not model:
          yield from keys(section, f"{prefix}{name}.")
    elif isinstance(field.default, schema.Section):
      yield from keys(type(field.default), f"{prefix}{name}.")
    else:
      yield prefix + name


def test_it_has_every_key_of_the_schema_and_no_other():
  flat = resolve.flatten(defaults.default_config().to_dict())
  assert set(flat) == set(keys(schema.Config))


@pytest.mark.parametrize(
  ("name", "value"),
  [
    ("total_steps", 10),
    ("ema_decay", 0.99),
    ("data_dir", "somewhere"),
    ("schedule.warmup_steps", "5 epochs"),
    ("model.representation_size", "width"),
    ("model.representation_size", 768),
    ("optimizer.decay_mask", (".*",)),
  ],
)
def test_a_key_takes_every_type_that_the_schema_allows(name, value):
  config = defaults.default_config()
  config.total_steps = 10
  *parents, leaf = name.split(".")
  section = config
  for parent in parents:
    section = section[parent]
  section[leaf] = value
  assert resolve.flatten(resolve.resolve(config).model_dump())[name] == value


def test_two_configs_share_nothing():
  first, second = defaults.default_config(), defaults.default_config()
  first.model.width = 5
  assert second.model.width is None


def test_an_eval_has_the_defaults_of_its_type():
  entry = defaults.default_eval(type="fewshot", shots=(1,))
  assert entry.shots == (1,)
  assert entry.l2 == 2.0**10


@pytest.mark.parametrize(
  ("changes", "base_lr"),
  [
    ({}, 3e-3),
    ({"init_from": "runs/other"}, 3e-5),
    ({"init_from": "runs/other", "schedule.base_lr": 0.5}, 0.5),
  ],
)
def test_a_value_may_hang_on_init_from(changes, base_lr):
  config = defaults.default_config()
  config.total_steps = 10
  config.schedule.base_lr = defaults.IfInitFrom(3e-5, otherwise=3e-3)
  config.update_from_flattened_dict(changes)
  assert resolve.resolve(config).schedule.base_lr == base_lr
