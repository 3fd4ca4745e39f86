"""Keys whose values have no effect because of other keys."""

import operator
from collections.abc import Callable, Iterator

from vit_jax.config import schema

_BY_NAME = "with config.optimizer.name = {config.optimizer.name!r}"
_BY_DECAY = "with config.schedule.decay = {config.schedule.decay!r}"
_BY_REACTION = "with config.faults.not_finite = {config.faults.not_finite!r}"


def _optimizer(*names: str) -> Callable[[schema.Config], bool]:
  return lambda config: config.optimizer.name in names


# Keys, the reason why they may have no effect, and a test for it. A test is
# asked only if the config has the keys.
_RULES: tuple[
  tuple[tuple[str, ...], str, Callable[[schema.Config], bool]], ...
] = (
  (
    # Evaluation uses model_from_init and keep_model_keys without it.
    ("init_without", "init_part"),
    "without config.init_from",
    lambda config: config.init_from is None,
  ),
  (
    ("ema_warmup",),
    "without config.ema_decay",
    lambda config: config.ema_decay is None,
  ),
  (
    ("objective.mix_probability", "objective.mix_mode"),
    "without config.objective.mixup_alpha or config.objective.cutmix_alpha",
    lambda config: (
      not (config.objective.mixup_alpha or config.objective.cutmix_alpha)
    ),
  ),
  (
    ("objective.mix_switch",),
    "unless config.objective.mixup_alpha and config.objective.cutmix_alpha are"
    " both set",
    lambda config: (
      not (config.objective.mixup_alpha and config.objective.cutmix_alpha)
    ),
  ),
  (
    (
      "objective.distillation",
      "objective.distillation_weight",
      "objective.distillation_temperature",
    ),
    "without config.objective.teacher",
    lambda config: config.objective.teacher is None,
  ),
  (
    ("objective.distillation_temperature",),
    "with config.objective.distillation = 'hard'",
    lambda config: config.objective.distillation == "hard",
  ),
  (
    ("objective.center_momentum",),
    "with config.objective.centering = 'sinkhorn'",
    lambda config: config.objective.centering == "sinkhorn",
  ),
  (
    ("objective.patch_bottleneck",),
    "with config.objective.separate_patch_head = False",
    lambda config: not config.objective.separate_patch_head,
  ),
  (
    ("objective.mask_ratio",),
    "with config.objective.mask_probability = 0",
    lambda config: getattr(config.objective, "mask_probability", None) == 0,
  ),
  (
    ("optimizer.momentum",),
    _BY_NAME,
    _optimizer("adam", "adamw", "lamb", "lion", "adafactor"),
  ),
  (
    ("optimizer.nesterov",),
    _BY_NAME,
    _optimizer("adam", "adamw", "lamb", "lion", "adafactor", "muon"),
  ),
  (("optimizer.b1", "optimizer.b2"), _BY_NAME, _optimizer("sgd", "lars")),
  (
    ("optimizer.eps",),
    _BY_NAME,
    _optimizer("sgd", "lars", "lion", "adafactor"),
  ),
  (
    ("optimizer.clipping_threshold",),
    _BY_NAME,
    _optimizer("adam", "adamw", "sgd", "lars", "lamb", "lion", "muon"),
  ),
  (
    ("optimizer.grad_clip",),
    "without config.optimizer.grad_clip_norm",
    lambda config: config.optimizer.grad_clip_norm is None,
  ),
  (
    ("optimizer.freeze_until_mode",),
    "without config.optimizer.freeze_until",
    lambda config: not config.optimizer.freeze_until,
  ),
  (
    ("schedule.end_lr",),
    _BY_DECAY,
    lambda config: config.schedule.decay == "constant",
  ),
  (
    ("schedule.rsqrt_timescale",),
    _BY_DECAY,
    lambda config: config.schedule.decay != "rsqrt",
  ),
  (
    ("schedule.boundaries", "schedule.factor"),
    _BY_DECAY,
    lambda config: config.schedule.decay != "steps",
  ),
  (
    ("log.project",),
    "without config.log.to",
    lambda config: not config.log.to,
  ),
  (
    ("profile.first_step",),
    "in a run of config.total_steps = {config.total_steps}",
    lambda config: (
      config.total_steps is not None
      and config.profile.first_step is not None
      and config.profile.first_step > config.total_steps
    ),
  ),
  (
    ("faults.roll_back_checkpoints",),
    _BY_REACTION,
    lambda config: config.faults.not_finite != "roll_back",
  ),
  (
    ("faults.max_not_finite",),
    _BY_REACTION,
    lambda config: config.faults.not_finite == "stop",
  ),
  (
    ("faults.on_spike",),
    "without config.faults.spike_zscore",
    lambda config: config.faults.spike_zscore is None,
  ),
)


def find(config: schema.Config) -> Iterator[tuple[str, str]]:
  """Yields each key that was changed in vain, and a sentence about it.

  Keys at their defaults are not mentioned. An experiment file may set keys for
  a variant in which they have no effect, so this is an error only for what the
  command line sets.
  """
  found = set()
  for keys, reason, is_vain in _RULES:
    for key in keys:
      *sections, name = key.split(".")
      section = operator.attrgetter(*sections)(config) if sections else config
      if type(section).__module__ != schema.__name__:
        continue  # An extension's keys may mean something else.
      field = type(section).model_fields.get(name)
      if field is None or key in found:
        continue
      value, default = getattr(section, name), field.default
      if value != default and is_vain(config):
        found.add(key)
        yield (
          key,
          f"config.{key} = {value!r} has no effect"
          f" {reason.format(config=config)}; change that, or leave it at"
          f" {default!r}.",
        )
