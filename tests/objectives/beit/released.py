"""microsoft/unilm's beit2 in NumPy: state dicts with its names, and outputs."""

import math

import numpy as np

erf = np.vectorize(math.erf)


def random_state(
  width, depth, num_heads=None, *, side, patch=4, hidden=32, layer_scale=None
):
  """State dict of a network; `num_heads` for a shared table of biases."""
  rng = np.random.default_rng(width + depth)

  def draw(*shape, scale=None):
    scale = shape[-1] ** -0.5 if scale is None else scale
    return np.float32(scale * rng.standard_normal(shape))

  def norm():
    return {
      "weight": 1 + draw(width, scale=0.3),
      "bias": draw(width, scale=0.3),
    }

  state = {
    "cls_token": draw(1, 1, width),
    "patch_embed.proj.weight": draw(width, 3, patch, patch, scale=0.2),
    "patch_embed.proj.bias": draw(width),
  }
  if num_heads is None:
    state["pos_embed"] = draw(1, 1 + side**2, width, scale=1)
  else:
    rows = (2 * side - 1) ** 2 + 3
    table = draw(rows, num_heads, scale=1)
    state["rel_pos_bias.relative_position_bias_table"] = table
  for layer in range(depth):
    parts = {
      **{f"norm1.{name}": x for name, x in norm().items()},
      **{f"norm2.{name}": x for name, x in norm().items()},
      "attn.qkv.weight": draw(3 * width, width, scale=2 * width**-0.5),
      "attn.q_bias": draw(width),
      "attn.v_bias": draw(width),
      "attn.proj.weight": draw(width, width),
      "attn.proj.bias": draw(width),
      "mlp.fc1.weight": draw(hidden, width),
      "mlp.fc1.bias": draw(hidden),
      "mlp.fc2.weight": draw(width, hidden),
      "mlp.fc2.bias": draw(width),
    }
    if layer_scale is not None:
      parts |= {"gamma_1": layer_scale + draw(width, scale=0.1)}
      parts |= {"gamma_2": layer_scale + draw(width, scale=0.1)}
    state |= {f"blocks.{layer}.{name}": x for name, x in parts.items()}
  last = "norm" if num_heads else "fc_norm"
  return state | {f"{last}.{name}": x for name, x in norm().items()}


def linear(state, name, x):
  return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def layer_norm(state, name, x):
  x = x - x.mean(axis=-1, keepdims=True)
  x = x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + 1e-6)
  return x * state[f"{name}.weight"] + state[f"{name}.bias"]


def shared_bias(state, side):
  """RelativePositionBias of modeling_finetune.py, [heads, n, n]."""
  table = state["rel_pos_bias.relative_position_bias_table"]
  row, column = np.divmod(np.arange(side**2), side)
  rows = row[:, None] - row[None] + side - 1
  columns = column[:, None] - column[None] + side - 1
  index = np.empty((side**2 + 1,) * 2, int)
  index[1:, 1:] = rows * (2 * side - 1) + columns
  index[0, :], index[:, 0], index[0, 0] = (
    len(table) - 3,
    len(table) - 2,
    len(table) - 1,
  )
  return table[index].transpose(2, 0, 1)


def block(state, name, x, num_heads, bias=0.0):
  """Block of modeling_finetune.py."""
  batch, count, width = x.shape
  joined = layer_norm(state, f"{name}.norm1", x)
  joined = joined @ state[f"{name}.attn.qkv.weight"].T
  query, key, value = (
    part.reshape(batch, count, num_heads, -1).transpose(0, 2, 1, 3)
    for part in np.split(joined, 3, axis=2)
  )

  def added(part):
    return state[f"{name}.attn.{part}_bias"].reshape(1, num_heads, 1, -1)

  query, value = query + added("q"), value + added("v")
  scores = query @ key.swapaxes(2, 3) / np.sqrt(width / num_heads) + bias
  chances = np.exp(scores - scores.max(axis=3, keepdims=True))
  chances /= chances.sum(axis=3, keepdims=True)
  found = (chances @ value).transpose(0, 2, 1, 3).reshape(x.shape)
  found = linear(state, f"{name}.attn.proj", found)
  x = x + state.get(f"{name}.gamma_1", 1.0) * found
  hidden = layer_norm(state, f"{name}.norm2", x)
  hidden = linear(state, f"{name}.mlp.fc1", hidden)
  hidden = hidden * (1 + erf(hidden / np.sqrt(2))) / 2
  found = linear(state, f"{name}.mlp.fc2", hidden)
  return x + state.get(f"{name}.gamma_2", 1.0) * found


def patches(state, pixels):
  """PatchEmbed: `pixels` are normalised, [b, h, w, 3]."""
  kernel = state["patch_embed.proj.weight"]
  batch, side, size = len(pixels), pixels.shape[1], kernel.shape[2]
  grid = side // size
  cut = pixels.reshape(batch, grid, size, grid, size, 3)
  cut = cut.transpose(0, 1, 3, 5, 2, 4).reshape(batch, grid**2, -1)
  flat = kernel.reshape(len(kernel), -1)
  return cut @ flat.T + state["patch_embed.proj.bias"]


def with_class_token(state, x):
  first = np.broadcast_to(state["cls_token"], (len(x), 1, x.shape[2]))
  return np.concatenate([first, x], axis=1) + state.get("pos_embed", 0.0)
