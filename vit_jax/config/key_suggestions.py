"""Suggestions of the config keys meant by misspelt or foreign names."""

from collections.abc import Sequence
from typing import Any

from vit_jax.suggestions import did_you_mean

# Names that timm, big_vision, open_clip, Hugging Face's Trainer, Lightning and
# the released code of the papers give to what our keys say (docs/migrating.md).
_ELSEWHERE = {
  "schedule.base_lr": ("lr", "learning_rate", "blr", "base_learning_rate"),
  "schedule.warmup_steps": ("warmup", "warmup_epochs", "warmup_lr_steps"),
  "schedule.end_lr": ("min_lr", "eta_min"),
  "schedule.decay": ("sched", "scheduler", "lr_scheduler", "lr_scheduler_type"),
  "total_epochs": ("epochs", "num_epochs", "num_train_epochs", "n_epochs"),
  "total_steps": ("steps", "max_steps", "num_steps", "num_train_steps"),
  "train.batch_size": (
    "batch_size",
    "train_batch_size",
    "per_device_train_batch_size",
    "batch_size_per_gpu",
  ),
  "train.accumulate_steps": (
    "accum_iter",
    "grad_accum_steps",
    "accumulate_grad_batches",
    "gradient_accumulation_steps",
    "accum_freq",
  ),
  "train.sampling": (
    "sampler",
    "weighted_sampler",
    "balanced",
    "class_balanced",
    "oversample",
    "oversampling",
  ),
  "objective.loss": (
    "bce_loss",
    "bce_sum",
    "criterion",
    "loss_fn",
    "loss_function",
    "mae_loss",
    "mse",
    "mse_loss",
    "regression",
    "problem_type",
  ),
  "objective.class_weights": ("class_weight", "weight_classes"),
  "train.preprocess": (
    "aa",
    "auto_augment",
    "augmentation",
    "transforms",
    "pp",
  ),
  "train.dataset": ("data", "train_data", "dataset_type"),
  "train.views": ("local_crops_number", "global_crops_scale"),
  "optimizer.name": ("opt", "optim", "optax_name"),
  "optimizer.eps": ("opt_eps",),
  "optimizer.weight_decay": ("weight_decay", "wd"),
  "optimizer.grad_clip_norm": (
    "clip_grad",
    "clip_grad_norm",
    "gradient_clip_val",
    "max_grad_norm",
  ),
  "optimizer.b1": ("beta1", "betas", "adam_beta1", "opt_betas"),
  "optimizer.b2": ("beta2", "adam_beta2"),
  "model.width": ("hidden_size", "hidden_dim", "embed_dim", "d_model"),
  "model.depth": ("num_layers", "num_hidden_layers", "n_layer"),
  "model.num_heads": ("num_attention_heads", "heads", "n_head"),
  "model.mlp_dim": ("intermediate_size", "mlp_ratio"),
  "model.pool": ("global_pool", "pooling", "pool_type"),
  "model.layer_scale": ("init_values", "layer_scale_init_value"),
  "model.registers": (
    "reg_tokens",
    "num_register_tokens",
    "num_registers",
    "n_storage_tokens",
  ),
  "model.rope_base": ("rope_theta", "rope_temperature", "pos_embed_rope_base"),
  "model.remat": (
    "grad_checkpointing",
    "gradient_checkpointing",
    "use_checkpoint",
  ),
  "model.image_size": ("image_size", "img_size", "input_size", "resolution"),
  "model.num_classes": ("num_classes", "nb_classes", "num_labels"),
  "model.dtype": ("amp", "bf16", "fp16", "precision", "mixed_precision"),
  "model.stochastic_depth_rate": ("drop_path", "drop_path_rate"),
  "model.dropout_rate": ("dropout", "drop", "drop_rate"),
  "model.variant": ("arch", "model", "model_name"),
  "objective.mixup_alpha": ("mixup", "mixup_alpha"),
  "objective.cutmix_alpha": ("cutmix", "cutmix_alpha"),
  "objective.mix_probability": ("mixup_prob",),
  "objective.mix_switch": ("mixup_switch_prob",),
  "objective.binarize_targets": ("bce_target_thresh",),
  "objective.label_smoothing": ("smoothing", "label_smoothing"),
  "objective.erase_probability": ("reprob", "random_erase"),
  "objective.normalize_pixels": ("norm_pix_loss",),
  "objective.masked_patches": ("num_mask_patches",),
  "objective.tokenizer": ("discrete_vae_weight_path", "tokenizer_weight"),
  "objective.prototypes": ("out_dim", "head_n_prototypes"),
  "objective.unit_prototypes": ("norm_last_layer",),
  "objective.koleo_weight": ("koleo_loss_weight",),
  "objective.patch_weight": ("loss_weight",),
  "objective.mask_probability": ("mask_sample_probability",),
  "objective.separate_patch_head": ("separate_head",),
  "objective.student_temperature": ("student_temp",),
  "objective.teacher_temperature": ("teacher_temp", "warmup_teacher_temp"),
  "objective.teacher_momentum": ("momentum_teacher",),
  "train.repeats": ("repeated_aug", "aug_repeats"),
  "early_stopping": ("patience", "early_stopping_patience"),
  "init_from": (
    "pretrained",
    "checkpoint",
    "initial_checkpoint",
    "finetune",
    "resume_from",
    "model_init",
  ),
  "data_dir": ("data_path", "data_root", "root"),
  "checkpoint.keep_last": ("save_total_limit", "checkpoint_hist"),
  "checkpoint.keep_best": ("metric_for_best_model", "load_best_model_at_end"),
  "checkpoint.every_steps": (
    "save_every",
    "save_steps",
    "saveckp_freq",
    "save_frequency",
    "ckpt_steps",
  ),
  "checkpoint.keep_every_steps": ("keep_ckpt_steps",),
  "log_every_steps": (
    "log_interval",
    "logging_steps",
    "log_every_n_steps",
    "log_training_steps",
  ),
  "log.to": (
    "report_to",
    "logger",
    "loggers",
    "tracker",
    "wandb",
    "use_wandb",
    "log_wandb",
    "mlflow",
    "trackio",
  ),
  "log.project": ("project", "project_name", "wandb_project"),
  "log.name": ("run_name", "wandb_name"),
  "log.price_per_device_hour": ("price", "cost", "cost_per_hour"),
  "ema_decay": ("model_ema", "model_ema_decay", "ema"),
  "optimizer.freeze": ("freeze", "freeze_backbone", "linear_probe"),
  "optimizer.freeze_until": (
    "unfreeze_epoch",
    "gradual_unfreezing",
    "freeze_last_layer",
  ),
  "optimizer.lr_multipliers": ("patch_embed_lr_mult",),
  "mesh.rules": ("sharding_strategy", "sharding_rules"),
  "optimizer.layer_decay": ("layer_decay", "layerwise_decay", "llrd"),
}
# Flags of others that no key of ours corresponds to.
_NO_KEYS = {
  "Resuming needs no flag: start the same command again.": (
    "resume",
    "auto_resume",
    "resume_from_checkpoint",
  ),
  "To evaluate a checkpoint, run python -m vit_jax.evaluate.": (
    "eval",
    "evaluate",
    "eval_only",
    "do_eval",
  ),
  "Give --config=configs/siglip.py.": ("siglip",),
  "Training writes to --workdir; evaluate, predict, visualize and search read a"
  " run with --checkpoint=WORKDIR.": ("workdir",),
  "--workdir names the directory of a run.": (
    "output",
    "output_dir",
    "log_dir",
    "logs",
    "save_dir",
  ),
}
_SENTENCES = {name: text for text, names in _NO_KEYS.items() for name in names}
OURS = {name: key for key, names in _ELSEWHERE.items() for name in names}


def unknown(name: str, value: Any, known: Sequence[str]) -> str:
  """Returns the error message for a key that does not exist.

  It names the key that was most likely meant, or else the keys of its section.

  Args:
    name: The key, 'config.lr'.
    value: Value that it was given; None: no value.
    known: Keys that exist, 'config.schedule.base_lr'.
  """
  shown = "" if value is None else f" ({value})"
  if near := nearest(name, known):
    return f'Unknown key "{name}"{shown}. Did you mean "{near}"?'
  section, inside = _section(name, known)
  return f'Unknown key "{name}"{shown}. Keys of {section}: {", ".join(inside)}.'


def nearest(name: str, known: Sequence[str]) -> str | None:
  """Returns the known key that a misspelt or foreign one most likely means.

  Args:
    name: The key, 'config.lr'.
    known: Keys that exist, 'config.schedule.base_lr'.

  Returns:
    One of `known`; None if none is similar.
  """
  section, _, leaf = name.rpartition(".")
  near = did_you_mean(name, known, cutoff=0.85)
  if near and _leaf(near) == leaf:
    return near  # Its section is misspelt.
  if foreign := _foreign(name, known):
    return foreign
  # The name of a key says more than that of its section.
  if near and did_you_mean(leaf, [_leaf(near)], cutoff=0.6):
    return near
  beside = {
    _leaf(key): key for key in known if key.rpartition(".")[0] == section
  }
  others = {_leaf(key): key for key in reversed(known)}
  if leaf in others:
    return others[leaf]
  for keys, cutoff in ((beside, 0.6), (others, 0.75)):
    if near := did_you_mean(leaf, keys, cutoff):
      return keys[near]
  return None


def of_flag(name: str, known: Sequence[str]) -> str | None:
  """Returns a sentence on the flag or key meant by a flag; None if unknown.

  A key ends with the name or has it as a foreign name.

  Args:
    name: A flag that does not exist, with the prefix of keys: 'config.lr'; its
      words may be joined by hyphens.
    known: As of `nearest`.
  """
  name = name.replace("-", "_")
  same = (key for key in known if _leaf(key) == _leaf(name))
  # A short one is nearer to what a flag might say: not of one evaluator.
  key = _foreign(name, known) or min(same, key=len, default=None)
  return f"Did you mean --{key}?" if key else _SENTENCES.get(_leaf(name))


def _foreign(name: str, known: Sequence[str]) -> str | None:
  """The known key that others call by the last part of the name."""
  key = f"{name.partition('.')[0]}.{OURS.get(_leaf(name), '')}"
  return key if key in known else None


def _leaf(key: str) -> str:
  return key.rpartition(".")[2]


def _section(name: str, known: Sequence[str]) -> tuple[str, list[str]]:
  """The innermost section on a key's path that exists, and its keys.

  A section in it is one of them: 'views.*' for 'config.train.views.local.size'.
  """
  section = name.rpartition(".")[0]
  while section and not any(key.startswith(f"{section}.") for key in known):
    section = section.rpartition(".")[0]
  inside = (
    key.removeprefix(f"{section}.").partition(".")
    for key in known
    if key.startswith(f"{section}.")
  )
  return section, list(
    dict.fromkeys(f"{key}.*" if rest else key for key, _, rest in inside)
  )
