"""The tokenizer that belongs to a checkpoint's text tower."""

import logging

from vit_jax import registry
from vit_jax.errors import UserError
from vit_jax.pretrained.inference import Inference
from vit_jax.tokenization.load import load_tokenizer
from vit_jax.tokenization.tokenizer import Tokenizer

_logger = logging.getLogger(__name__)


def read(use: Inference, checkpoint: str, path: str | None = None) -> Tokenizer:
  """Loads the tokenizer for the length of the checkpoint's texts.

  Args:
    use: The checkpoint.
    checkpoint: Its path, where the tokenizer is looked for.
    path: Path of the tokenizer; None: that of the checkpoint. If it has fewer
      pieces than the tower knows, a line says so, but for the tokenizer that a
      run keeps, by which it was trained.

  Raises:
    UserError: The checkpoint has no text tower or no tokenizer, or the
      tokenizer has more pieces than the tower knows.
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
  """Warns of a tokenizer with fewer pieces than a text tower knows.

  Nothing is said of the tokenizer that the checkpoint itself has.

  Args:
    path: The tokenizer, as config.train.tokenizer names it.
    checkpoint: Path of the checkpoint.
    length: Tokens of a text.
    num_tokens: Tokens that the tower knows.

  Raises:
    UserError: `path` is no tokenizer.
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
