"""Patch features as colours."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, UInt8

from vit_jax.report import formatting
from vit_jax.report.figures import sheet
from vit_jax.report.inspection.figure import Figure


def draw(
  images: Sequence[UInt8[np.ndarray, "h w 3"]],
  pixels: UInt8[np.ndarray, "n rows columns 3"],
  shares: Float[np.ndarray, " k"],
  num_images: int,
) -> Figure:
  """Draws the components of patch features as red, green and blue."""
  canvas = sheet.draw(
    sheet.bands({"image": images, "features": list(pixels)}), side=96.0
  )
  caption = (
    "The first three principal components of the last layer's patch features"
    " as red, green and blue, over all patches of"
    f" {formatting.counted(num_images, 'image')} together, so that a colour"
    " means the same in all. They hold"
    f" {', '.join(formatting.percent(float(s), 1) for s in shares)} of the"
    " variance; a colour reaches from two standard deviations below the mean"
    " to two above."
  )
  numbers = {"patch_features": pixels, "patch_features_variance_shares": shares}
  title = "Features of patches"
  return Figure("patch_features", title, caption, canvas, numbers)
