"""The tokenizer that belongs to a checkpoint's text tower."""

import logging

from vit_jax import registry
from vit_jax.errors import UserError
from vit_jax.pretrained.inference import Inference
from vit_jax.tokenization.load import load_tokenizer
from vit_jax.tokenization.tokenizer import Tokenizer

_logger = logging.getLogger(__name__)


def read(use: Inference, checkpoint: str, path: str | None = None) -> Tokenizer:
  """Loads the tokenizer with the length of the checkpoint's texts.

  Args:
    use: The checkpoint.
    checkpoint: Path of the checkpoint, where the tokenizer is looked for.
    path: Path of the tokenizer; None for that of the checkpoint. Logs a line if
      it has fewer tokens than the tower, unless it is the tokenizer that a run
      keeps because it was trained with it.

  Raises:
    UserError: The checkpoint has no text tower or no tokenizer, or the
      tokenizer has more tokens than the tower.
  """
  model = use.weights.model
  if not registry.FAMILIES.get(model.name).has_text:
    raise UserError(
      f"{checkpoint} has no text tower, so texts cannot be compared with"
      " images; give a checkpoint of CLIP or SigLIP."
    )
  try:
    found = load_tokenizer(path or checkpoint, length=model.text.length)
  except UserError as error:
    if path is not None:
      raise
    raise UserError(
      f"{checkpoint} has no tokenizer that can be used ({error}) Give one as"
      " --tokenizer=PATH."
    ) from None
  if found.vocab_size > model.text.vocab_size:
    raise UserError(
      f"The tokenizer {path or checkpoint} has {found.vocab_size} tokens, but"
      f" {checkpoint} knows {model.text.vocab_size}; give the tokenizer that"
      " the checkpoint was trained with, as --tokenizer=PATH."
    )
  is_of_run = path is None and use.step is not None
  if not is_of_run:
    _warn_of_fewer(
      found,
      path or checkpoint,
      checkpoint,
      model.text.vocab_size,
      option="--tokenizer=PATH",
    )
  return found


def warn_of_another(
  path: str, checkpoint: str, *, length: int, num_tokens: int
) -> None:
  """Warns if a tokenizer has fewer tokens than a text tower.

  There is no warning for the checkpoint's own tokenizer.

  Args:
    path: The tokenizer, as named in config.train.tokenizer.
    checkpoint: Path of the checkpoint.
    length: Number of tokens in a text.
    num_tokens: Number of tokens that the tower has embeddings for.

  Raises:
    UserError: `path` is not a tokenizer.
  """
  named = load_tokenizer(path, length=length)
  try:
    own = load_tokenizer(checkpoint, length=length)
  except UserError:
    own = None
  if own is None or own.fingerprint != named.fingerprint:
    _warn_of_fewer(
      named,
      path,
      checkpoint,
      num_tokens,
      option="--config.train.tokenizer=PATH",
    )


def _warn_of_fewer(
  tokenizer: Tokenizer,
  path: str,
  checkpoint: str,
  num_tokens: int,
  *,
  option: str,
) -> None:
  if tokenizer.vocab_size < num_tokens:
    _logger.warning(
      "The tokenizer %s has %d tokens, but %s knows %d. Unless the checkpoint"
      " was trained with it, answers mean nothing; the right one is given as"
      " %s.",
      path,
      tokenizer.vocab_size,
      checkpoint,
      num_tokens,
      option,
    )
