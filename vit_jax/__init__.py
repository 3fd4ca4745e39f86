"""Vision Transformers in JAX, from a laptop to a pod.

model, params = vit_jax.load("B_16.npz")
logits = model.apply({"params": params}, images)
"""

import importlib as _importlib
import os as _os

from vit_jax import absent_tpu as _absent_tpu
from vit_jax import installation as _installation

__version__ = "0.1.0"

_installation.check()
_absent_tpu.choose_platform()

# For paths in buckets, before etils is first asked for one. TensorFlow's access
# to them takes seconds to import and has errors of its own, and a listing that
# gcsfs remembers lacks what other libraries have written since.
_os.environ.setdefault("EPATH_USE_TF", "false")
_os.environ.setdefault("FSSPEC_GCS", '{"use_listings_cache": false}')

# Imported when first used: `import vit_jax` alone must not wait for jax.
_HOMES = {
  "Classifier": "vit_jax.evaluators.classifier",
  "create_model": "vit_jax.pretrained.load",
  "features": "vit_jax.pretrained.features",
  "list_models": "vit_jax.models.names",
  "load": "vit_jax.pretrained.load",
  "load_transform": "vit_jax.pretrained.transform",
  "load_tokenizer": "vit_jax.tokenization.load",
  "save": "vit_jax.pretrained.save",
}


def __getattr__(name: str):
  if name not in _HOMES:
    raise AttributeError(f"module 'vit_jax' has no attribute {name!r}")
  return getattr(_importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
  return sorted([*globals(), *_HOMES])
