"""From a ConfigDict to frozen models, or to sentences."""

import pydantic
import pytest

from vit_jax.config import defaults, named_sections, resolve, schema
from vit_jax.errors import UserError


def config(**changes):
  """The defaults with `changes`; '__' stands for '.'."""
  built = defaults.default_config()
  built.total_steps = 1000
  built.evals.test = defaults.default_eval(type="classification")
  built.evals.few = defaults.default_eval(type="fewshot")
  built.evals.few.datasets.digits = defaults.default_fewshot_dataset()
  built.evals.near = defaults.default_eval(type="knn")
  built.evals.near.datasets.digits = defaults.default_fewshot_dataset()
  built.evals.seg = defaults.default_eval(type="linear_segmentation")
  built.evals.seg.datasets.rooms = defaults.default_segmentation_dataset()
  for path, value in changes.items():
    *parents, leaf = path.split("__")
    section = built
    for name in parents:
      section = section[name]
    section[leaf] = value
  return built


def complaint(**changes):
  with pytest.raises(UserError) as error:
    resolve.resolve(config(**changes))
  return str(error.value)


def test_defaults_resolve_to_the_schemas_own():
  built = defaults.default_config()
  built.total_steps = 5
  assert resolve.resolve(built) == schema.Config(total_steps=5)


@pytest.mark.parametrize("value", [0, "0 epochs"])
@pytest.mark.parametrize(
  "key",
  [
    "checkpoint.every_steps",
    "checkpoint.keep_every_steps",
    "evals.test.every_steps",
  ],
)
def test_an_interval_of_nothing_is_refused(key, value):
  told = complaint(**{key.replace(".", "__"): value})
  assert f"config.{key}" in told
  assert f"{value!r} is not an interval; use at least 1 step" in told


def test_a_resolved_config_is_frozen():
  resolved = resolve.resolve(config())
  with pytest.raises(pydantic.ValidationError):
    resolved.seed = 1


def test_dump_and_load_give_the_same_config():
  resolved = resolve.resolve(
    config(
      optimizer__lr_multipliers=((".*bias", 0.5),),
      mesh__rules=((".*kernel", (None, "tensor")),),
      schedule__warmup_steps="2 epochs",
    )
  )
  assert resolve.load(resolve.dump(resolved)) == resolved


@pytest.mark.parametrize(
  ("changes", "sentence"),
  [
    (
      {"schedule__base_rl": 0.1},
      'Unknown key "config.schedule.base_rl" (0.1). Did you mean'
      ' "config.schedule.base_lr"?',
    ),
    (
      {"evals__test__splt": "a"},
      'Unknown key "config.evals.test.splt" (a). Did you mean'
      ' "config.evals.test.split"?',
    ),
    (
      {"evals__seg__datasets__rooms__directry": "a"},
      'Unknown key "config.evals.seg.datasets.rooms.directry" (a). Did you mean'
      ' "config.evals.seg.datasets.rooms.directory"?',
    ),
    (
      {"evals__few__datasets__digits__split": "a"},
      'Unknown key "config.evals.few.datasets.digits.split" (a). Did you mean'
      ' "config.evals.few.datasets.digits.test_split"?',
    ),
    (
      {"model__pool": "mean"},
      "config.model.pool = 'mean' is not one of 'cls', 'gap', 'cls_gap', 'map'"
      " or 'none'.",
    ),
    (
      {"train__batch_size": "many"},
      "config.train.batch_size = 'many' must be a whole number.",
    ),
    (
      {"train__batch_size": 2.5},
      "config.train.batch_size = 2.5 must be a whole number.",
    ),
    (
      {"total_steps": 1e3},
      "config.total_steps = 1000.0 must be a whole number; write 1000.",
    ),
    (
      {"total_steps": "10 epochs"},
      "config.total_steps = '10 epochs' must be a whole number; epochs are a"
      " number of config.total_epochs.",
    ),
    (
      {"train__batch_size": -1},
      "config.train.batch_size = -1 must be greater than 0.",
    ),
    ({"seed": True}, "config.seed = True must be a whole number."),
    (
      {"ema_decay": 1.5},
      "config.ema_decay = 1.5 must be less than 1.",
    ),
    (
      {"schedule__warmup_steps": "5 parsecs"},
      "config.schedule.warmup_steps: '5 parsecs' is not a duration",
    ),
    (
      {"optimizer__decay_mask": ["kernel"]},
      "config.optimizer.decay_mask = ['kernel'] must be a tuple, such as"
      " ('a', 'b') or (1, 2).",
    ),
    (
      {"evals__test__type": "clasification"},
      "config.evals.test.type = 'clasification' is not known. Did you mean"
      " 'classification'? Known: classification, regression, fewshot, knn,"
      " linear_probe, linear_segmentation, reconstruction, zeroshot,"
      " retrieval.",
    ),
    (
      {"evals__near__neighbours": (1, 2)},
      'Unknown key "config.evals.near.neighbours" ((1, 2)). Did you mean'
      ' "config.evals.near.neighbors"?',
    ),
    (
      {"evals__near__temperature": 0.0},
      "config.evals.near.temperature = 0.0 must be greater than 0.",
    ),
    (
      {"evals__few__shots": (1, 0)},
      "config.evals.few.shots.1 = 0 must be greater than 0.",
    ),
    ({"evals__few__datasets": {}}, "config.evals.few.datasets is empty"),
    ({"total_steps": None}, "config.total_steps or config.total_epochs"),
    (
      {"train__accumulate_steps": 3},
      "config.train.batch_size = 4096 does not divide into"
      " config.train.accumulate_steps = 3 micro-batches; use 4095 or 4098.",
    ),
    (
      {"init_classes": "map.txt"},
      "config.init_classes = 'map.txt' chooses from the head of"
      " config.init_from, which is not set; set both or neither.",
    ),
    (
      {"train__repeats": 3},
      "config.train.batch_size = 4096 does not divide into examples that are"
      " repeated config.train.repeats = 3 times; use 4095 or 4098.",
    ),
    (
      {"schedule__warmup_steps": 1000},
      "config.schedule.warmup_steps = 1000 is not shorter",
    ),
    (
      {
        "schedule__warmup_steps": "9 epochs",
        "total_steps": None,
        "total_epochs": 9,
      },
      "config.schedule.warmup_steps = '9 epochs' is not shorter",
    ),
    ({"mesh__fsdp": -1}, "config.mesh.data and config.mesh.fsdp are"),
    ({"mesh__tensor": 0}, "config.mesh.tensor = 0 must be"),
    ({"schedule__decay": "steps"}, "needs config.schedule.boundaries"),
  ],
)
def test_what_is_wrong_is_said_in_a_sentence(changes, sentence):
  assert sentence in complaint(**changes)


def test_all_bad_values_are_reported_at_once():
  lines = complaint(model__pool="mean", seed=-1, ema_decay=0.0).splitlines()
  assert [line.split(" = ")[0] for line in lines] == [
    "config.seed",
    "config.ema_decay",
    "config.model.pool",
  ]


def test_a_config_of_another_version_is_refused_in_a_sentence():
  with pytest.raises(UserError, match='Unknown key "config.modle"'):
    resolve.load('{"total_steps": 1, "modle": {}}')


@pytest.mark.parametrize("text", ["", '{"seed": 0, "mo', "seed: 0"])
def test_a_torn_config_is_said_to_be_no_json(text):
  with pytest.raises(UserError, match="not complete JSON: .* line 1 column"):
    resolve.load(text)


def test_every_key_says_what_it_means():
  def check(model):
    for name, field in model.model_fields.items():
      if name in ("model", "objective"):
        continue
      if isinstance(field.default, schema.Section):
        assert type(field.default).__doc__
        check(type(field.default))
      elif name != "type":
        assert field.description, f"{model.__name__}.{name}"

  for model in (
    schema.Config,
    *named_sections.sections("objective").values(),
    *named_sections.sections("model").values(),
    *named_sections.sections("evals").values(),
    schema.FewshotDataset,
  ):
    check(model)


@pytest.mark.parametrize(
  ("kind", "preprocess"),
  [
    # common_fewshot.py of big_vision: resize(256), of the whole image.
    ("fewshot", "decode|resize(scale=1.1429)|central_crop"),
    # eval_knn.py and eval_linear.py of DINO resize the smaller side.
    ("knn", "decode|resize_small(scale=1.1429)|central_crop"),
    ("linear_probe", "decode|resize_small(scale=1.1429)|central_crop"),
  ],
)
def test_each_evaluator_of_features_crops_as_its_reference(kind, preprocess):
  entry = defaults.default_eval(type=kind)
  entry.datasets.own = defaults.default_fewshot_dataset()
  entry.datasets.other = defaults.default_fewshot_dataset(preprocess="decode")
  resolved = resolve.resolve(config(evals={"features": entry}))
  datasets = resolved.evals["features"].datasets
  assert datasets["own"].preprocess == preprocess
  assert datasets["other"].preprocess == "decode"
  assert resolve.load(resolve.dump(resolved)) == resolved


def test_flatten_joins_names_with_dots():
  assert resolve.flatten({"a": {"b": 1, "c": {}}, "d": 2}) == {
    "a.b": 1,
    "a.c": {},
    "d": 2,
  }


def test_the_keys_of_another_objective_are_left_out_unless_they_are_set():
  resolved = resolve.resolve(
    config(objective__name="masked_patch", objective__mask_rate=0.75)
  )
  assert resolved.objective == schema.MaskedPatch(mask_rate=0.75)
  assert "config.objective.mixup_alpha = 0.2 is a key of" in complaint(
    objective__name="masked_patch", objective__mixup_alpha=0.2
  )
  message = complaint(objective__mask_rate=0.75)
  assert message == (
    "config.objective.mask_rate = 0.75 is a key of config.objective.name ="
    " 'masked_patch', which 'supervised' lacks; leave it at 0.5."
  )


def test_a_key_of_an_image_tower_is_named_with_its_place():
  message = complaint(model__name="two_towers", model__attention="pallas")
  assert message.endswith(
    "which 'two_towers' lacks; leave it at 'auto', or set"
    " config.model.image.attention."
  )


def test_a_dumped_objective_of_another_name_is_read_back():
  resolved = resolve.resolve(config(objective__name="masked_patch"))
  assert resolve.load(resolve.dump(resolved)) == resolved


@pytest.mark.parametrize(
  ("changes", "sentence"),
  [
    ({"evals__x": 5}, "config.evals.x = 5 must be a group of keys."),
    ({"objective": None}, "config.objective = None must be a group of keys."),
    (
      {"objective__name": ["a"]},
      "config.objective.name = ['a'] is not known. Known: supervised,",
    ),
    (
      {"extensions": "my_module"},
      "config.extensions = 'my_module' must be a tuple of modules, such as",
    ),
    (
      {"objective__name": "dinov2", "objective__mask_ratio": (0.1, 0.2, 0.3)},
      "config.objective.mask_ratio = (0.1, 0.2, 0.3) must have 2 values.",
    ),
    (
      {"objective__name": "dinov2", "objective__mask_ratio": ()},
      "config.objective.mask_ratio = () must have 2 values.",
    ),
    (
      {"optimizer__lr_multipliers": (("head/.*", 1.0), ("cls",))},
      "config.optimizer.lr_multipliers.1 = ('cls',) must have 2 values.",
    ),
    (
      {"optimizer__lr_multipliers": ("head/.*", 1.0)},
      "lr_multipliers.1 = 1.0 must be a tuple, such as ('a', 'b') or (1, 2).",
    ),
    (
      {"train__batch_size": 2, "train__accumulate_steps": 3},
      "config.train.accumulate_steps = 3 micro-batches; use 3.",
    ),
    (
      {"train__batch_size": 7, "train__repeats": 3},
      "config.train.repeats = 3 times; use 6 or 9.",
    ),
    (
      {"optimizer__weight_decay": float("inf")},
      "config.optimizer.weight_decay: inf is not finite",
    ),
  ],
)
def test_values_of_the_wrong_kind_are_sentences(changes, sentence):
  assert sentence in complaint(**changes)


@pytest.mark.parametrize(
  "text", ['"model": 5', '"objective": []', '"evals": {"a": 3}']
)
def test_a_damaged_section_of_a_runs_config_is_a_sentence(text):
  with pytest.raises(UserError, match="must be a group of keys"):
    resolve.load(f'{{"total_steps": 1, {text}}}')


def test_keys_without_effect_in_an_older_runs_config_are_dropped():
  text = (
    '{"total_steps": 1, "objective":'
    ' {"name": "masked_patch", "loss": "sigmoid", "mask_rate": 0.5}}'
  )
  assert resolve.load(text).objective == named_sections.section(
    "objective", name="masked_patch"
  )


def test_a_type_of_evaluator_may_be_changed_where_its_keys_are_not():
  """The keys that only the former type has are at their defaults."""
  built = defaults.default_config()
  built.total_steps = 3
  built.evals.test = defaults.default_eval(type="classification", split="val")
  built.evals.test.type = "regression"
  assert resolve.resolve(built).evals == {
    "test": schema.RegressionEval(type="regression", split="val")
  }
  built.evals.test.label_sets = "real.json"
  with pytest.raises(UserError, match="config.evals.test.label_sets"):
    resolve.resolve(built)


@pytest.mark.parametrize(
  ("given", "trackers"),
  [
    ("wandb", ("wandb",)),
    ("wandb,mlflow", ("wandb", "mlflow")),
    (("trackio",), ("trackio",)),
    (["trackio"], ("trackio",)),
    ("", ()),
  ],
)
def test_trackers_are_words_or_a_tuple_of_them(given, trackers):
  resolved = resolve.resolve(config(log__to=given))
  assert resolved.log.to == trackers
  assert resolve.load(resolve.dump(resolved)) == resolved


def test_a_tracker_that_is_not_known_is_answered_with_the_nearest():
  assert complaint(log__to="wandb,ml_flow") == (
    "config.log.to = 'ml_flow' is not known. Did you mean 'mlflow'? Known:"
    " wandb, mlflow, trackio."
  )
  assert "must be" in complaint(log__to=3)
