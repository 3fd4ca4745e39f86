"""PyTorch's names of a BiT, which differ in three places."""

from vit_jax.weights.spellings.names import Names


def names(root: str, unit: str, head: str) -> Names:
  """Names of a pre-activation ResNet.

  Args:
    root: Name of the first convolution.
    unit: Name of a residual unit, with numbers as in `Names`.
    head: Name of the classifier.
  """
  ours = "block{1}/unit{01}"
  rows = [("root_conv", root), ("norm", "norm"), ("head", head)]
  for number, letter in enumerate("abc", 1):
    rows.append((f"{ours}/{letter}_norm", f"{unit}.norm{number}"))
    rows.append((f"{ours}/{letter}", f"{unit}.conv{number}"))
  rows.append((f"{ours}/proj", f"{unit}.downsample.conv"))
  return Names(tuple(rows), required=(f"{root}.weight",))
