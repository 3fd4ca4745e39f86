"""Mean and standard deviation of predicted numbers, and heads on that scale."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_MEAN, _STD = "target_mean", "target_std"
# Names of networks' heads; the prediction of several is their mean.
_HEADS = ("head", "head_dist")


def state(mean: np.ndarray, std: np.ndarray) -> dict[str, np.ndarray]:
  """Returns an objective state with the scale, float32 [numbers] each."""
  return {_MEAN: mean.astype(np.float32), _STD: std.astype(np.float32)}


def has_head(params: Any) -> bool:
  """Returns True if parameters have a linear head that can be scaled."""
  return {"kernel", "bias"} <= set(params.get(_HEADS[0], ()))


def standardised(numbers: Any, objective_state: Mapping[str, Any]) -> Any:
  """Standardises numbers [b, numbers] by mean and standard deviation."""
  mean, std = (objective_state[name][None] for name in (_MEAN, _STD))
  return (numbers - mean) / std


def exported(params: Any, objective_state: Mapping[str, Any]) -> Any:
  """Returns parameters whose heads predict the numbers themselves.

  Args:
    params: Trained parameters, or their shapes, which the result shares.
    objective_state: State of the objective; without a scale, the heads already
      predict the numbers.
  """

  def scaled(kernel: Any, bias: Any, mean: Any, std: Any) -> tuple[Any, Any]:
    return kernel * _as_row(std, kernel), bias * std + mean

  return _with_heads(params, objective_state, scaled)


def from_exported(params: Any, objective_state: Mapping[str, Any]) -> Any:
  """Returns the parameters to train on from those of `exported`."""

  def scaled(kernel: Any, bias: Any, mean: Any, std: Any) -> tuple[Any, Any]:
    return kernel / _as_row(std, kernel), (bias - mean) / std

  return _with_heads(params, objective_state, scaled)


def _as_row(std: Any, kernel: Any) -> Any:
  return std.reshape((1,) * (kernel.ndim - 1) + (-1,))


def _with_heads(
  params: Any,
  objective_state: Mapping[str, Any],
  scaled: Callable[[Any, Any, Any, Any], tuple[Any, Any]],
) -> Any:
  if _MEAN not in objective_state:
    return params
  mean, std = objective_state[_MEAN], objective_state[_STD]
  if not hasattr(std, "__array__"):
    return params  # Shapes.
  result = dict(params)
  for name in _HEADS:
    if name in params:
      head = params[name]
      kernel, bias = scaled(head["kernel"], head["bias"], mean, std)
      result[name] = {**head, "kernel": kernel, "bias": bias}
  return result
