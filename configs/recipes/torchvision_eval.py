"""Evaluation's images as torchvision makes them, for most released codes."""


def ops(scale: float) -> str:
  """Resizes the smaller side, crops the centre, and rounds as torchvision.

  Args:
    scale: The smaller side over that of the crop, such as 256 / 224.
  """
  return (
    f"decode|resize_small(scale={scale:.6g}, method='bicubic', antialias=True,"
    " rounding='down')|central_crop(rounding='nearest')"
  )
