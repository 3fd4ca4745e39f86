"""Published weights by name, which a name's library or bucket resolves."""

from vit_jax import hub, vit_models
from vit_jax.suggestions import did_you_mean


def is_name(path: str) -> bool:
  """Returns True for a name, False for a path."""
  return hub.is_name(path) or vit_models.is_name(path)


def local(path: str) -> str:
  """Returns the path of the weights of a name, fetched if necessary.

  Args:
    path: 'hf:OWNER/NAME' (`vit_jax.hub`), 'augreg_i21k:B/16' or another name
      of `vit_jax.vit_models`; any other path is returned as it is.

  Raises:
    UserError: There is nothing of that name, or it cannot be fetched.
  """
  return vit_models.local(path) if vit_models.is_name(path) else hub.local(path)


def hint(path: str) -> str:
  """A sentence on the name that may be meant by a path; '' if none may."""
  collection, colon, network = path.partition(":")
  near = did_you_mean(collection, vit_models.COLLECTIONS, cutoff=0.7)
  if near is None:
    return ""
  return f" Did you mean {near}:{network if colon else 'B/16'}?"
