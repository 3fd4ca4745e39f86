"""Erasing and mixing of the training images of a supervised objective."""

from vit_jax.config import schema
from vit_jax.models.layers import normalize
from vit_jax.objectives import contract, erasing, mixing


def augmented(
  batch: contract.Batch, rngs: contract.Rngs, config: schema.Config
) -> contract.Batch:
  """Returns the batch after erasing and mixing, which use normalised floats.

  Mixing adds `other_label`, the label of the image mixed in, and `label_share`,
  the share of the image's own label.
  """
  objective = config.objective
  mixes = bool(objective.mixup_alpha or objective.cutmix_alpha)
  if not (mixes or objective.erase_probability):
    return batch
  images = normalize.normalize(
    batch["image"], config.model.normalize, "float32"
  )
  result = dict(batch)
  if objective.erase_probability:
    images = erasing.erase(
      images, rngs("erasing"), probability=objective.erase_probability
    )
  if mixes:
    images, share = mixing.mix(
      images,
      rngs("mixing"),
      mixup_alpha=objective.mixup_alpha,
      cutmix_alpha=objective.cutmix_alpha,
      probability=objective.mix_probability,
      switch=objective.mix_switch,
      mode=objective.mix_mode,
      repeats=config.train.repeats,
    )
    result["label_share"] = share
    result["other_label"] = mixing.partners(
      batch["label"], mode=objective.mix_mode, repeats=config.train.repeats
    )
  return {**result, "image": images.astype(config.model.dtype)}
