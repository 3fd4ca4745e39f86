"""Hidden patches and their predictions."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, UInt8

from vit_jax.report.figures import sheet
from vit_jax.report.inspection.figure import Figure


def draw(
  images: Sequence[UInt8[np.ndarray, "h w 3"]],
  masked: UInt8[np.ndarray, "n h w 3"],
  predicted: UInt8[np.ndarray, "n h w 3"],
  losses: Float[np.ndarray, " n"],
) -> Figure:
  """Draws images, their visible patches, and predictions of the others."""
  bands = {
    "image": list(images),
    "seen": list(masked),
    "predicted": list(predicted),
  }
  caption = (
    "Each image, the patches of it that the encoder saw, and those with what"
    " the decoder predicted of the others. The mean loss of the hidden patches"
    f" is {float(np.mean(losses)):.3f}."
  )
  numbers = {
    "masked_images": masked,
    "reconstructions": predicted,
    "reconstruction_losses": losses,
  }
  canvas = sheet.draw(sheet.bands(bands), side=96.0)
  return Figure("reconstructions", "Reconstructions", caption, canvas, numbers)
