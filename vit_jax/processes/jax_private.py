"""The private interfaces of jax that this package uses, read at jax 0.10.2.

Nothing else in the package imports `jax._src`. Each use names the public
interface that would replace it; `tests/processes/test_jax_private.py` fails
with a sentence when one of them moves.
"""

import atexit
import math
import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax._src import (
  api,
  clusters,
  compilation_cache,
  distributed,
  xla_bridge,
)
from jax._src.compilation_cache_interface import CacheInterface

__all__ = ["CacheInterface"]

# End of the path of the file that compiles, as a stack shows it.
COMPILER_FILE = os.path.join("jax", "_src", "compiler.py")


def coordination_client() -> Any:
  """The client of the service that joined the processes; None: there is none.

  Its key-value store passes words while devices are busy. Public would be a
  key-value store in `jax.distributed`; `jax.experimental.multihost_utils`
  needs the devices.
  """
  return distributed.global_state.client


def backends_are_initialized() -> bool:
  """Tells whether devices were asked for, after which processes cannot join.

  Public would be a function of this name in `jax.extend.backend`.
  """
  return xla_bridge.backends_are_initialized()


def detect_cluster(timeout_seconds: int | None) -> tuple[Any, Any, Any, Any]:
  """Coordinator, count, index and devices that a known cluster says.

  `jax.distributed.initialize()` detects them too, but only tells by joining;
  public would be the detection alone.
  """
  detect = clusters.ClusterEnv.auto_detect_unset_distributed_params
  return detect(None, None, None, None, None, timeout_seconds)


def use_compilation_cache(cache: CacheInterface) -> None:
  """Makes a cache of our own jax's persistent one.

  Public would be a setter that takes a `CacheInterface`;
  `jax.config.jax_compilation_cache_dir` takes a directory, whose files are not
  checked when they are read.
  """
  compilation_cache._cache = cache


def forget_exit_handler() -> None:
  """Lets this process exit without waiting for the others.

  Public would be an argument of `jax.distributed.shutdown`.
  """
  atexit.unregister(api.clean_up)


def cudnn_attention(
  query: jax.Array, key: jax.Array, value: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Attention by cuDNN, [b, n, heads, k] as its arguments, and log-sums.

  The second result is float32 [b, heads, n]: the logarithms of the sums of the
  scores' exponentials, which the backward pass starts from.
  `jax.nn.dot_product_attention` rounds the second result to the dtype of the
  first; public would be one that does not.
  """
  from jax._src.cudnn import fused_attention_stablehlo as cudnn

  scale = 1 / math.sqrt(query.shape[-1])
  return cudnn.dot_product_attention(
    query, key, value, scale=scale, return_residual=True
  )


def cudnn_attention_gradients(
  inputs: Sequence[jax.Array],
  results: Sequence[jax.Array],
  gradient: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Gradients of query, key and value, for any number of tokens.

  jax refuses odd numbers where a bias is added to the scores, and takes the
  empty array that stands for no bias for one. The kernel itself does not mind;
  public would be `jax.nn.dot_product_attention` without that mistake.

  Args:
    inputs: Query, key and value, [b, n, heads, k].
    results: Both results of `cudnn_attention`.
    gradient: That of the first one.
  """
  from jax._src.cudnn import fused_attention_stablehlo as cudnn

  query, (context, log_sums) = inputs[0], results
  absent = jnp.zeros(0, query.dtype)
  gradients = cudnn._dot_product_attention_bwd_rule(
    1 / math.sqrt(query.shape[-1]),
    0,  # Seed of the dropout.
    0.0,  # Its rate.
    (False, False),  # No bias, and no gradient of one.
    cudnn.MaskType.NO_MASK,
    cudnn.AttentionLayout.BTNH.value,
    None,  # No window.
    None,  # The version of cuDNN, which it does not read.
    False,  # No gradient of `log_sums`.
    (*inputs, *7 * [absent], log_sums, context),
    gradient,
  )
  return tuple(gradients[:3])
