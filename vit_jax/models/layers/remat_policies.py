"""Arrays kept for the backward pass, by value of `config.model.remat`."""

from collections.abc import Callable, Mapping, Sequence

import jax

from vit_jax.models.layers import pointwise

_POLICIES = jax.checkpoint_policies


def by_name(
  names: Sequence[str], *, dots: Callable[..., bool] | None = None
) -> Mapping[str, Callable]:
  """Policies of `jax.checkpoint` by name; other arrays are recomputed.

  Args:
    names: Names, given by `checkpoint_name`, of the arrays that 'named' keeps
      on the device and 'offload' in host memory.
    dots: Policy of 'dots', which keeps products; None for that of 'named'.

  Returns:
    The policies of 'full', 'dots', 'named' and 'offload'.
  """
  named = _POLICIES.save_only_these_names(*names)
  return {
    "full": _POLICIES.nothing_saveable,
    "dots": named if dots is None else dots,
    "named": named,
    "offload": _POLICIES.save_and_offload_only_these_names(
      names_which_can_be_saved=[],
      names_which_can_be_offloaded=list(names),
      offload_src="device",
      offload_dst="pinned_host",
    ),
  }


# Policies for blocks of attention and MLP: 'dots' keeps the results of all
# products with parameters, 9 D numbers per token; 'named' keeps the inputs of
# attention's backward pass and of the MLP, 5 D.
OF_BLOCKS = by_name(
  ("query", "key", "value", "context", "after_attention"),
  dots=_POLICIES.save_from_both_policies(
    _POLICIES.dots_with_no_batch_dims_saveable,
    _POLICIES.save_only_these_names(pointwise.PRODUCT),
  ),
)
