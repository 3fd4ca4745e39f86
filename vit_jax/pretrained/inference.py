"""A checkpoint with its own preprocessing and activation."""

import dataclasses
import logging

from vit_jax import registry
from vit_jax.config import main_evaluator, schema
from vit_jax.data import spec
from vit_jax.errors import UserError
from vit_jax.models import build as models_build
from vit_jax.pretrained import load, reading, run_files
from vit_jax.weights import image_processor
from vit_jax.weights.contract import Weights

_logger = logging.getLogger(__name__)

_DEFAULT_PREPROCESS = schema.ClassificationEval(
  type="classification"
).preprocess


@dataclasses.dataclass(frozen=True)
class Inference:
  """A checkpoint ready for inference.

  Attributes:
    weights: Parameters and their architecture, usable on any device;
      `preprocess` and `activation` are set.
    step: Number of updates done; None for a published file.
    extensions: Modules that register the components named in the run's config.
    is_preprocess_told: True if the checkpoint specifies its preprocessing,
      False if it is assumed.
  """

  weights: Weights
  step: int | None
  extensions: tuple[str, ...] = ()
  is_preprocess_told: bool = True

  @property
  def names(self) -> tuple[str, ...]:
    """Returns the names of the head's outputs, or their numbers."""
    names, count = self.weights.class_names, self.weights.model.num_classes
    return tuple(names or map(str, range(count or 0)))

  def adapted(
    self, *, image_size: int | None = None, num_classes: int | None = None
  ) -> "Inference":
    """Adapts to another image size or a new head; see `load.load`."""
    module, params = load.adapt(
      self.weights, image_size=image_size, num_classes=num_classes
    )
    model = models_build.config_of(module)
    same_head = model.num_classes == self.weights.model.num_classes
    activation = self.weights.activation
    if self.weights.predicts_numbers and not same_head:
      activation = "softmax"
    weights = dataclasses.replace(
      self.weights,
      model=model,
      params=params,
      class_names=self.weights.class_names if same_head else None,
      activation=activation,
      preprocess=_for_size(self.weights.preprocess, model.image_size),
    )
    return dataclasses.replace(self, weights=weights)


def read(path: str) -> Inference:
  """Reads a checkpoint in any format.

  A run's images are preprocessed as in its evaluator (the one named "test",
  else the first classifier, else the first that compares with texts), and its
  loss determines the activation of its logits, or that they are numbers. A
  published file may come with an image processor's config; otherwise images are
  resized to a square, or as for CLIP, and logits go through a softmax.

  Args:
    path: A workdir, a step, an .npz, .safetensors or .pth file, or a Hugging
      Face directory.

  Raises:
    UserError: The checkpoint cannot be read.
  """
  weights, step = reading.read_with_step(path)
  for sentence in (*weights.assumed, *weights.about_beside):
    _logger.info("%s: %s", path, sentence)
  if step is None:
    extensions = ()
    said = image_processor.read(path)
    preprocess = weights.preprocess or said.preprocess
    notes = said.notes
    # The default is the preprocessing used to evaluate the published .npz
    # networks.
    if preprocess is None and not path.endswith(".npz"):
      assumed = _default(weights.model)
      notes = (f"No file says how images are prepared: {assumed!r} is taken.",)
    for sentence in notes:
      _logger.info("%s: %s", path, sentence)
    activation = weights.activation or said.activation
  else:
    workdir, _ = reading.locate(path)
    config = run_files.read_config(workdir)
    extensions = config.extensions
    preprocess = main_evaluator.preprocess(config)
    kind = registry.OBJECTIVES.get(config.objective.name)
    activation = kind.activation(config) or "softmax"  # For a new head.
  weights = dataclasses.replace(
    weights,
    model=weights.model.updated(**load.ANY_DEVICE),
    preprocess=preprocess or _default(weights.model),
    activation=activation,
  )
  return Inference(weights, step, extensions, preprocess is not None)


def _default(model: schema.Model) -> str:
  """Returns ops for published networks whose files do not state them."""
  # SigLIP adds a bias to similarities and resizes to squares.
  has_text = registry.FAMILIES.get(model.name).has_text
  if has_text and getattr(model, "bias_init", None) is None:
    return schema.ZeroShotDataset().preprocess
  return _DEFAULT_PREPROCESS


def _for_size(preprocess: str, image_size: int) -> str:
  """Returns the ops, or the default ones if they suit only another size."""
  try:
    spec.check(preprocess, image_size, where="preprocess", train=False)
  except UserError as error:
    _logger.warning("%s %r takes its place.", error, _DEFAULT_PREPROCESS)
    return _DEFAULT_PREPROCESS
  return preprocess
