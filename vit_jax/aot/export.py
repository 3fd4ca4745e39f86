"""A network and its parameters as one file that runs without this package.

  from jax import export
  network = export.deserialize(bytearray(open("photos.stablehlo", "rb").read()))
  logits = network.call(images)  # uint8 [n, S, S, 3] -> float32 [n, classes]

The file holds StableHLO, which jax promises to run for at least six months
after it was written, on CPU, NVIDIA GPU and TPU.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from jax import export as jax_export
from jaxtyping import Array, Float, UInt8

from vit_jax import records, trees
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models import build as models_build
from vit_jax.weights.contract import Weights

PLATFORMS = ("cpu", "cuda", "tpu")
# The format cannot hold more than 2 GiB; this much is left for the program.
_MAX_PARAMETER_BYTES = 2**31 - 2**25


def write(path: epath.PathLike, weights: Weights, *, dtype: str) -> None:
  """Writes the file; nothing is left half written.

  Raises:
    UserError: As for `export`, or the path cannot be written to.
  """
  content = export(weights.model, weights.params, dtype=dtype)
  path = epath.Path(path)
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    with records.replacing(path) as partial:
      partial.write_bytes(content)
  except OSError as error:
    raise UserError(
      f"{path} cannot be written ({error.strerror or error})."
    ) from None


def export(
  model: schema.Model, params: Any, *, dtype: str = "float32"
) -> bytes:
  """The file's content, for any batch size.

  Args:
    model: Architecture, with `num_classes` of the head (None: features).
    params: Parameters of the model.
    dtype: Dtype of the parameters and of the computation: 'float32', or
      'bfloat16' for half the size.

  Raises:
    UserError: The parameters are too large for the format.
  """
  model = model.updated(dtype=dtype, attention="xla")
  network = models_build.create(model, num_classes=model.num_classes)
  params = jax.tree.map(lambda leaf: np.asarray(leaf, jnp.dtype(dtype)), params)
  num_bytes = sum(leaf.nbytes for _, leaf in trees.named_leaves(params))
  if num_bytes > _MAX_PARAMETER_BYTES:
    raise UserError(
      f"Parameters of {num_bytes / 1e9:.2f} GB do not fit into a StableHLO"
      " file, which holds at most 2.1 GB"
      + ("; use --dtype=bfloat16." if dtype == "float32" else ".")
    )

  def classify(images: UInt8[Array, "b h w c"]) -> Float[Array, "b classes"]:
    return network.apply({"params": params}, images).astype(jnp.float32)

  (batch,) = jax_export.symbolic_shape("batch")
  size = model.image_size
  exported = jax_export.export(jax.jit(classify), platforms=PLATFORMS)(
    jax.ShapeDtypeStruct((batch, size, size, 3), jnp.uint8)
  )
  return bytes(exported.serialize())
