"""PyTorch names of a ConvNeXt, which differ in few places."""

from vit_jax.weights.spellings.names import Names


def names(
  *,
  stem: tuple[str, str],
  downsample: str,
  block: str,
  parts: dict[str, str],
  norm: str,
  head: str,
) -> Names:
  """Builds the names of a ConvNeXt of either version.

  Args:
    stem: Names of the first convolution and of the norm after it.
    downsample: Name of the module between stages, with the stage's number as in
      `Names`; its children 0 and 1 are the norm and the convolution.
    block: Name of a block, with numbers as in `Names`.
    parts: Maps our name of a block's module or parameter to theirs.
    norm: Name of the norm after the pooling.
    head: Name of the classifier.
  """
  ours = "stage{1}/block{01}"
  rows = [
    ("stem/conv", stem[0]),
    ("stem/norm", stem[1]),
    ("stage{2}/downsample/norm", f"{downsample}.0"),
    ("stage{2}/downsample/conv", f"{downsample}.1"),
    *((f"{ours}/{part}", f"{block}.{name}") for part, name in parts.items()),
    ("norm", norm),
    ("head", head),
  ]
  return Names(tuple(rows), required=(f"{stem[0]}.weight",))
