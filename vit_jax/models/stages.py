"""Names and features of networks with stages: Swin, ConvNeXt and PVT.

Their modules are `stage1` and so on, containing blocks `block01` and so on.
Each sows its final map.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  import flax.linen as nn


def block_name(index: int) -> str:
  """Name of a stage's block from its index: 'block01' for 0."""
  return f"block{index + 1:02d}"


def map_names(network: "nn.Module") -> list[str]:
  """`Family.map_names`: the results of all stages."""
  return [f"stage{stage + 1}" for stage in range(len(network.depths))]


def feature_names(
  network: "nn.Module", stem: Sequence[str], embedding: Sequence[str] = ()
) -> list[str]:
  """Names of the features, in the order in which they are computed.

  Args:
    network: A network with the attribute `depths`.
    stem: Names of the features before the first stage.
    embedding: Names of a stage's features before its first block.
  """
  names = list(stem)
  for stage, depth in zip(map_names(network), network.depths, strict=True):
    blocks = [*embedding, *map(block_name, range(depth))]
    names += [*(f"{stage}/{block}" for block in blocks), stage]
  return [*names, "encoded", "pre_logits"]


def feature(network: "nn.Module", name: str, sown: Mapping[str, Any]) -> Any:
  """`Family.feature`: the value that the network has sown for a feature."""
  values = sown["intermediates"]
  if name == "encoded":
    return values[name][0]
  if name.endswith("/embed"):
    return values[name.removesuffix("/embed")]["embed_map"][0]
  if "/" in name:
    stage, block = name.split("/")
    return values[stage][block]["map"][0]
  return values[f"{name}_map"][0]
