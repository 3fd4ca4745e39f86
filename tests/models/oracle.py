"""The paper's equations in float64 NumPy, looped rather than vectorised."""

import math

import jax
import numpy as np


def float64(tree):
  """A tree of NumPy arrays, free of jax's rules."""
  return jax.tree.map(lambda x: np.asarray(x, np.float64), tree)


def layer_norm(x, params, eps=1e-6):
  x, params = float64((x, params))
  mean = x.mean(-1, keepdims=True)
  deviation = np.sqrt(x.var(-1, keepdims=True) + eps)
  return (x - mean) / deviation * params["scale"] + params["bias"]


def gelu(x, kind="tanh"):
  if kind == "exact":
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
  inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
  return 0.5 * x * (1 + np.tanh(inner))


def attention(queries, tokens, params, relative_keys=None):
  """Also returns the maps [heads, q, n], for one example."""
  queries, tokens, params = float64((queries, tokens, params))
  heads, contexts, maps = params["query"]["kernel"].shape[1], [], []
  no_bias = np.zeros((heads, 1))
  for h in range(heads):
    q, k, v = (
      x @ params[name]["kernel"][:, h] + params[name].get("bias", no_bias)[h]
      for name, x in (("query", queries), ("key", tokens), ("value", tokens))
    )
    scores = np.zeros((len(q), len(k)))
    for i in range(len(q)):
      for j in range(len(k)):
        key = k[j]
        if relative_keys is not None:
          key = key + relative_keys[i - j + len(k) - 1, h]
        scores[i, j] = q[i] @ key / math.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    contexts.append(weights @ v)
    maps.append(weights)
  out = params["out"]
  context = np.concatenate(contexts, axis=-1)
  kernel = out["kernel"].reshape(-1, out["kernel"].shape[-1])
  return context @ kernel + out["bias"], np.stack(maps)


def mlp(x, params, kind="tanh"):
  x, params = float64((x, params))
  x = x @ params["Dense_0"]["kernel"] + params["Dense_0"]["bias"]
  return gelu(x, kind) @ params["Dense_1"]["kernel"] + params["Dense_1"]["bias"]


def block(x, params, relative_keys=None, kind="tanh"):
  y = layer_norm(x, params["LayerNorm_0"])
  y, _ = attention(
    y, y, params["MultiHeadDotProductAttention_0"], relative_keys
  )
  x = x + y
  return x + mlp(
    layer_norm(x, params["LayerNorm_1"]), params["MlpBlock_0"], kind
  )


def standardize(kernel, deviation):
  """Each filter apart; `deviation` maps a variance to what divides."""
  kernel = float64(kernel).copy()
  for k in range(kernel.shape[-1]):
    values = kernel[..., k]
    kernel[..., k] = (values - values.mean()) / deviation(values.var())
  return kernel


def convolution(x, kernel, stride, padding):
  """Place by place; `padding` is (before, after) in both directions."""
  x = np.pad(float64(x), ((0, 0), padding, padding, (0, 0)))
  size = kernel.shape[0]
  rows, columns = ((side - size) // stride + 1 for side in x.shape[1:3])
  result = np.zeros((len(x), rows, columns, kernel.shape[-1]))
  for i in range(rows):
    for j in range(columns):
      top, left = i * stride, j * stride
      window = x[:, top : top + size, left : left + size]
      result[:, i, j] = np.tensordot(window, kernel, axes=3)
  return result


def group_norm(x, params, eps, num_groups=32):
  x, params = float64((x, params))
  result = np.zeros_like(x)
  size = x.shape[-1] // num_groups
  for n in range(len(x)):
    for g in range(0, x.shape[-1], size):
      group = x[n, :, :, g : g + size]
      centred = group - group.mean()
      result[n, :, :, g : g + size] = centred / np.sqrt(group.var() + eps)
  return result * params["scale"] + params["bias"]
