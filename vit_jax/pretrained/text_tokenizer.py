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
      it has fewer tokens than the tower, or others than the checkpoint's,
      unless it is the tokenizer that a run keeps as it was trained with it.

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
    num_tokens = model.text.vocab_size
    own = None
    if path is not None:
      own = _own(checkpoint, model.text.length, num_tokens)
    _warn(
      found,
      path or checkpoint,
      checkpoint,
      num_tokens,
      own=own,
      option="--tokenizer=PATH",
    )
  return found


def warn_of_another(
  path: str, checkpoint: str, *, length: int, num_tokens: int
) -> None:
  """Warns if a tokenizer has other tokens than a text tower.

  There is no warning for the checkpoint's own tokenizer.

  Args:
    path: The tokenizer, as named in config.train.tokenizer.
    checkpoint: Path of the checkpoint.
    length: Number of tokens in a text.
    num_tokens: Number of tokens that the tower has embeddings for.

  Raises:
    UserError: `path` is not a tokenizer.
  """
  try:
    named = load_tokenizer(path, length=length)
  except UserError as error:
    raise UserError(f"config.train.tokenizer = {path!r}: {error}") from None
  own = _own(checkpoint, length, num_tokens)
  if own is None or own.fingerprint != named.fingerprint:
    _warn(
      named,
      path,
      checkpoint,
      num_tokens,
      own=own,
      option="--config.train.tokenizer=PATH",
    )


def _own(checkpoint: str, length: int, num_tokens: int) -> Tokenizer | None:
  """Returns a checkpoint's tokenizer; None if none fits its text tower."""
  try:
    found = load_tokenizer(checkpoint, length=length)
  except UserError:
    return None
  return found if found.vocab_size <= num_tokens else None


def _warn(
  tokenizer: Tokenizer,
  path: str,
  checkpoint: str,
  num_tokens: int,
  *,
  own: Tokenizer | None,
  option: str,
) -> None:
  """Warns of fewer tokens than the tower's, or of others than its own."""
  if tokenizer.vocab_size < num_tokens:
    other = f"has {tokenizer.vocab_size} tokens, but %s knows {num_tokens}"
  elif own is not None and not tokenizer.has_pieces_of(own):
    other = "has other tokens than that of %s"
  else:
    return
  _logger.warning(
    f"The tokenizer %s {other}. Unless the checkpoint was trained with it,"
    " answers mean nothing; the right one is given as %s.",
    path,
    checkpoint,
    option,
  )
