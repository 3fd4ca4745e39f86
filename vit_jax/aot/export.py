"""A network and its parameters as one file that runs without this package.

  from jax import export
  network = export.deserialize(bytearray(open("photos.stablehlo", "rb").read()))
  logits = network.call(images)  # uint8 [n, S, S, 3] -> float32 [n, classes]

The file contains StableHLO, which jax guarantees to run for at least six months
after it was written, on CPU, NVIDIA GPU and TPU.

A network with an image and a text tower becomes a directory:

  image.stablehlo   uint8 [n, S, S, 3] -> float32 [n, e], of unit length
  text.stablehlo    int32 [t, length] -> float32 [t, e], of unit length
  towers.json       the scale and the bias, so that the logits are
                    scale * image @ text.T + bias; how images are prepared
  tokenizer/        the tokenizer, if the checkpoint has one
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from jax import export as jax_export
from jaxtyping import Array, Float, Int, UInt8

from vit_jax import records, registry, trees
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models import build as models_build
from vit_jax.weights.contract import Weights

PLATFORMS = ("cpu", "cuda", "tpu")
# The format is limited to 2 GiB; this much is reserved for the program.
_MAX_PARAMETER_BYTES = 2**31 - 2**25


def write(
  path: epath.PathLike,
  weights: Weights,
  *,
  dtype: str,
  tokenizer: Mapping[str, bytes] | None = None,
) -> None:
  """Writes the file or directory; nothing is left partially written.

  Args:
    path: Path that does not exist yet.
    weights: Parameters and their architecture.
    dtype: As for `export`.
    tokenizer: Files of a text tower's tokenizer; None if it is unknown.

  Raises:
    UserError: As for `export`, or the path cannot be written to.
  """
  path = epath.Path(path)
  if registry.FAMILIES.get(weights.model.name).has_text:
    files = _towers_files(weights, dtype, tokenizer)
    with records.new_directory(path) as partial:
      for name, content in files.items():
        (partial / name).parent.mkdir(exist_ok=True)
        (partial / name).write_bytes(content)
    return
  content = export(weights.model, weights.params, dtype=dtype)
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    with records.replacing(path) as partial:
      partial.write_bytes(content)
  except OSError as error:
    raise UserError(
      f"{path} cannot be written ({error.strerror or error})."
    ) from None


def _towers_files(
  weights: Weights, dtype: str, tokenizer: Mapping[str, bytes] | None
) -> dict[str, bytes]:
  """Returns contents by file name."""
  files = {
    f"{tower}.stablehlo": content
    for tower, content in export_towers(
      weights.model, weights.params, dtype=dtype
    ).items()
  }
  bias = weights.params.get("logit_bias")
  described = {
    "image_size": weights.model.image_size,
    "text_length": weights.model.text.length,
    "scale": float(np.exp(np.float32(weights.params["logit_scale"]))),
    "bias": None if bias is None else float(bias),
    "preprocess": weights.preprocess,
  }
  files["towers.json"] = (json.dumps(described, indent=2) + "\n").encode()
  for name, content in (tokenizer or {}).items():
    files[f"tokenizer/{name}"] = content
  return files


def export(
  model: schema.Model, params: Any, *, dtype: str = "float32"
) -> bytes:
  """Returns the file's content, for any batch size.

  Args:
    model: Architecture, with `num_classes` of the head (None for features).
    params: Parameters of the model.
    dtype: Dtype of the parameters and of the computation: 'float32', or
      'bfloat16' for half the size.

  Raises:
    UserError: The parameters are too large for the format.
  """
  network, params = _built(model, params, dtype)
  _check_size(params, dtype)

  def classify(images: UInt8[Array, "b h w c"]) -> Float[Array, "b classes"]:
    return network.apply({"params": params}, images).astype(jnp.float32)

  return _program(classify, _images(model), jnp.uint8)


def export_towers(
  model: schema.Model, params: Any, *, dtype: str = "float32"
) -> dict[str, bytes]:
  """Returns the files of a two-tower network, for any batch size.

  Args:
    model: Architecture.
    params: Parameters of the model.
    dtype: As for `export`.

  Returns:
    'image', a function of uint8 [n, S, S, 3], and 'text', a function of int32
    [t, length]; both return float32 embeddings of unit length.

  Raises:
    UserError: The parameters of a tower are too large for the format.
  """
  network, params = _built(model, params, dtype)
  for tower in ("image", "text"):
    of_tower = (tower, f"{tower}_projection")
    _check_size({k: v for k, v in params.items() if k in of_tower}, dtype)

  def image(images: UInt8[Array, "b h w c"]) -> Float[Array, "b e"]:
    found = network.apply({"params": params}, images)
    return found["image_embedding"].astype(jnp.float32)

  def text(tokens: Int[Array, "t n"]) -> Float[Array, "t e"]:
    found = network.apply({"params": params}, text=tokens)
    return found["text_embedding"].astype(jnp.float32)

  return {
    "image": _program(image, _images(model), jnp.uint8),
    "text": _program(text, (model.text.length,), jnp.int32),
  }


def _built(model: schema.Model, params: Any, dtype: str) -> tuple[Any, Any]:
  """Builds the network, and converts its parameters to a dtype."""
  model = model.updated(dtype=dtype, attention="xla", depthwise="xla")
  network = models_build.create(model, num_classes=model.num_classes)
  return network, jax.tree.map(
    lambda leaf: np.asarray(leaf, jnp.dtype(dtype)), params
  )


def _check_size(params: Any, dtype: str) -> None:
  num_bytes = sum(leaf.nbytes for _, leaf in trees.named_leaves(params))
  if num_bytes > _MAX_PARAMETER_BYTES:
    raise UserError(
      f"Parameters of {num_bytes / 1e9:.2f} GB do not fit into a StableHLO"
      " file, which holds at most 2.1 GB"
      + ("; use --dtype=bfloat16." if dtype == "float32" else ".")
    )


def _images(model: schema.Model) -> tuple[int, ...]:
  return (model.image_size, model.image_size, 3)


def _program(
  function: Callable[..., Any], shape: tuple[int, ...], dtype: Any
) -> bytes:
  """Serialises a function of one batch; `shape` is that of an example."""
  (batch,) = jax_export.symbolic_shape("batch")
  exported = jax_export.export(jax.jit(function), platforms=PLATFORMS)(
    jax.ShapeDtypeStruct((batch, *shape), dtype)
  )
  return bytes(exported.serialize())
