"""Published weights by name, resolved by a library or bucket."""

import os

from vit_jax import hub, vit_models
from vit_jax.suggestions import did_you_mean


def is_name(path: str) -> bool:
  """Returns True for a name, False for a path."""
  return hub.is_name(path) or vit_models.is_name(path)


def local(path: str) -> str:
  """Returns the path of the named weights, downloading them if necessary.

  Args:
    path: 'hf:OWNER/NAME' (`vit_jax.hub`), 'augreg_i21k:B/16' or another name of
      `vit_jax.vit_models`; in any other path, '~' at the beginning is replaced
      by the home directory.

  Raises:
    UserError: There is nothing with that name, or it cannot be downloaded.
  """
  if vit_models.is_name(path):
    return vit_models.local(path)
  return os.path.expanduser(hub.local(path))


def hint(path: str) -> str:
  """Returns a sentence on the name that a path may mean; '' if none."""
  collection, colon, network = path.partition(":")
  near = did_you_mean(collection, vit_models.COLLECTIONS, cutoff=0.7)
  if near is None:
    return ""
  return f" Did you mean {near}:{network if colon else 'B/16'}?"
