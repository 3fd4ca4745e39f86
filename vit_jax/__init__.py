"""Vision Transformers in JAX, from a laptop to a pod.

model, params = vit_jax.load("B_16.npz")
logits = model.apply({"params": params}, images)
"""

import importlib as _importlib
import os as _os
from typing import TYPE_CHECKING as _TYPE_CHECKING

from vit_jax import absent_tpu as _absent_tpu
from vit_jax import installation as _installation
from vit_jax import interruption as _interruption
from vit_jax import large_pages as _large_pages

__version__ = "0.1.0"

_interruption.leave_out_trace_of_command(__name__)
_installation.check()
_absent_tpu.choose_platform()
_large_pages.ask()

# For paths in buckets, before etils is first used for one. TensorFlow's access
# to them takes seconds to import and raises its own errors, and a listing
# cached by gcsfs misses files that other libraries have written since.
_os.environ.setdefault("EPATH_USE_TF", "false")
_os.environ.setdefault("FSSPEC_GCS", '{"use_listings_cache": false}')

# Imported on first use: `import vit_jax` alone must not load jax.
_HOMES = {
  "Classifier": "vit_jax.evaluators.classifier",
  "Regressor": "vit_jax.evaluators.regressor",
  "create_model": "vit_jax.pretrained.load",
  "feature_maps": "vit_jax.models.features",
  "feature_names": "vit_jax.models.features",
  "features": "vit_jax.pretrained.features",
  "list_models": "vit_jax.models.names",
  "load": "vit_jax.pretrained.load",
  "load_transform": "vit_jax.pretrained.transform",
  "load_tokenizer": "vit_jax.tokenization.load",
  "save": "vit_jax.pretrained.save",
}
__all__ = tuple(_HOMES)

if _TYPE_CHECKING:  # The same names for type checkers and editors.
  from vit_jax.evaluators.classifier import Classifier as Classifier
  from vit_jax.evaluators.regressor import Regressor as Regressor
  from vit_jax.models.features import feature_maps as feature_maps
  from vit_jax.models.features import feature_names as feature_names
  from vit_jax.models.names import list_models as list_models
  from vit_jax.pretrained.features import features as features
  from vit_jax.pretrained.load import create_model as create_model
  from vit_jax.pretrained.load import load as load
  from vit_jax.pretrained.save import save as save
  from vit_jax.pretrained.transform import load_transform as load_transform
  from vit_jax.tokenization.load import load_tokenizer as load_tokenizer


def __getattr__(name: str):
  if name not in _HOMES:
    raise AttributeError(f"module 'vit_jax' has no attribute {name!r}")
  return getattr(_importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
  return sorted([*globals(), *_HOMES])
