"""Host op strings that resize images and crop the centre.

Most evaluations use such ops, and the files next to published checkpoints can
express them in their own terms.
"""

import ast
import dataclasses
from typing import Any

# Ops after decoding that other libraries have as well.
_KNOWN = (
  ["resize"],
  ["resize", "central_crop"],
  ["resize_small", "central_crop"],
)
_RESIZE = ("size", "method", "antialias", "scale")
_RESIZE_SMALL = ("size", "scale", "method", "antialias", "rounding")
_CROP = ("size", "rounding")
# Rounding of a crop's position in torchvision, as timm and open_clip use it.
TORCHVISION, HUGGING_FACE = "nearest", "down"
# Difference that remains between any of our ops and theirs.
JPEG = "Pillow decodes JPEG files there, about one level of 255 differently"


@dataclasses.dataclass(frozen=True)
class Resizing:
  """The steps from a decoded image to an image of the model's size.

  Attributes:
    is_squashed: True if images are resized to squares, False if their smaller
      side is resized.
    side: Length of that side, pixels.
    is_cropped: True if the resized image is cropped to its centre.
    method: Name of the method, one of `vit_jax.data.ops_image.Method`.
    is_smooth: True if every pixel counts when an image is shrunk.
    rounding: Rounding of the longer side and the crop's position; None if there
      is nothing to round.
  """

  is_squashed: bool
  side: int
  is_cropped: bool
  method: str
  is_smooth: bool
  rounding: tuple[str | None, str | None]

  def differences(self, crop_rounding: str) -> tuple[str, ...]:
    """Returns sentences about differences from libraries that use Pillow.

    Args:
      crop_rounding: `TORCHVISION` or `HUGGING_FACE`.
    """
    notes = []
    if not self.is_smooth:
      name = "resize" if self.is_squashed else "resize_small"
      notes.append(
        f"images that shrink are smoothed there, which {name!r} does with"
        " antialias=True only"
      )
    longer, place = self.rounding
    if longer not in (None, "down") or place not in (None, crop_rounding):
      notes.append(
        "sides are rounded differently there, so a crop may be off by a pixel"
      )
    return (*notes, JPEG)


def resizing(preprocess: str, image_size: int) -> Resizing | None:
  """Parses the ops of an evaluation; None if they do anything else.

  Args:
    preprocess: Ops of an evaluation.
    image_size: Side of the model's images, pixels.
  """
  first, *calls = [
    ast.parse(op.strip(), mode="eval").body for op in preprocess.split("|")
  ]
  names = [_name(call) for call in calls]
  if _name(first) != "decode" or names not in _KNOWN:
    return None
  is_squashed, is_cropped = names[0] == "resize", len(names) == 2
  given = _arguments(calls[0], _RESIZE if is_squashed else _RESIZE_SMALL)
  method = given.get("method", "bilinear" if is_squashed else "area")
  side = round(given.get("scale", 1) * (given.get("size") or image_size))
  longer, place = None, None
  if not is_squashed:
    longer = given.get("rounding", "nearest")
  # An even margin around the crop of a square needs no rounding.
  if is_cropped and not (is_squashed and (side - image_size) % 2 == 0):
    place = _arguments(calls[1], _CROP).get("rounding", "down")
  return Resizing(
    is_squashed=is_squashed,
    side=side,
    is_cropped=is_cropped,
    method=method,
    is_smooth=method == "area" or given.get("antialias", False),
    rounding=(longer, place),
  )


def text(
  side: int, crop: int, *, is_squashed: bool, method: str, crop_rounding: str
) -> str:
  """Returns ops that resize to `side`, antialiased, and crop to `crop`.

  Args:
    side: Side of the square, or smaller side of the image, pixels.
    crop: Side of the crop, which is the model's image size.
    is_squashed: True if images are resized to squares.
    method: Resizing method, as in the ops.
    crop_rounding: `TORCHVISION` or `HUGGING_FACE`.
  """
  how = f"method='{method}', antialias=True"
  if is_squashed and side <= crop:
    return f"decode|resize({how})"
  rounded = f"(rounding='{crop_rounding}')"
  middle = "central_crop" + rounded * (crop_rounding != "down")
  if is_squashed:
    return f"decode|resize({side}, {how})|{middle}"
  scale = max(side / crop, 1)  # Also for other image sizes.
  how = f"scale={scale:.6g}, {how}, rounding='down'"
  return f"decode|resize_small({how})|{middle}"


def _name(call: ast.expr) -> str:
  return ast.unparse(call.func if isinstance(call, ast.Call) else call)


def _arguments(call: ast.expr, names: tuple[str, ...]) -> dict[str, Any]:
  """Returns the arguments given to an op, by name."""
  if not isinstance(call, ast.Call):
    return {}
  given = dict(zip(names, call.args, strict=False))
  given |= {keyword.arg: keyword.value for keyword in call.keywords}
  return {name: ast.literal_eval(value) for name, value in given.items()}
