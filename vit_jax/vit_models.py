"""Google-research's published ViTs by name: augreg_i21k:B/16.

They are .npz files in the public bucket gs://vit_models; a path in it also
works as a name: gs://vit_models/augreg/FILE.npz. They are downloaded over
HTTPS, without credentials, into the cache directory; the bucket's files never
change.

Names are those of google-research/vision_transformer, whose README recommends
the recipes of 'augreg_i21k' and of 'augreg_i21k_i1k' at 384 pixels;
google-research/big_vision recommends B/8 on ImageNet-21k. The others are those
that timm 1.0 loads.
"""

import os
import pathlib
import re
import urllib.parse
import zipfile

from vit_jax import cache_directory
from vit_jax.errors import UserError
from vit_jax.suggestions import did_you_mean

_BUCKET = "gs://vit_models/"
_ADDRESS = "https://storage.googleapis.com/vit_models"
MIRROR = "VIT_JAX_MODELS_URL"
_FILE = re.compile(r"(?:[\w+.-]*\w/)*[\w+.-]+\.npz", re.ASCII)

# Recipe of arXiv 2106.10270: augmentation, weight decay, dropout and
# stochastic depth.
_NONE = "aug_none-wd_0.03-do_0.0-sd_0.0"
_NONE_DECAYED = "aug_none-wd_0.1-do_0.0-sd_0.0"
_LIGHT = "aug_light1-wd_0.03-do_0.0-sd_0.0"
_LIGHT_DECAYED = "aug_light1-wd_0.1-do_0.0-sd_0.0"
_MEDIUM = "aug_medium1-wd_0.1-do_0.0-sd_0.0"
_MEDIUM_DROPPED = "aug_medium1-wd_0.1-do_0.1-sd_0.1"
_STRONG = "aug_strong1-wd_0.1-do_0.0-sd_0.0"


def _augreg(variant: str, data: str, recipe: str) -> str:
  stem = variant.replace("/", "_").replace("+", "_")
  return f"augreg/{stem}-{data}-300ep-lr_0.001-{recipe}"


def _fine_tuned(
  variant: str, data: str, recipe: str, rate: str, size: int
) -> str:
  start = _augreg(variant, data, recipe)
  return f"{start}--imagenet2012-steps_20k-lr_{rate}-res_{size}"


def _original(directory: str, variant: str) -> str:
  stem, plus, vit = variant.replace("/", "_").rpartition("+")
  return f"{directory}/{stem}{plus}ViT-{vit}"


# Collection -> variant -> image size in pixels -> file without suffix.
_FILES: dict[str, dict[str, dict[int, str]]] = {
  "vit_i21k": {
    variant: {224: _original("imagenet21k", variant)}
    for variant in ("B/32", "B/16", "L/32", "L/16", "H/14", "R50+B/16")
  },
  "vit_i21k_i1k": {
    variant: {
      size: _original("imagenet21k+imagenet2012", variant)
      + ("" if size == 384 else f"-{size}")
      for size in sizes
    }
    for variant, sizes in {
      "B/32": (384,),
      "B/16": (224, 384),
      "L/32": (384,),
      "L/16": (224, 384),
      "R50+B/16": (384,),
    }.items()
  },
  "augreg_i21k": {
    variant: {224: _augreg(variant, "i21k", recipe)}
    for variant, recipe in {
      "Ti/16": _NONE,
      "S/32": _NONE_DECAYED,
      "S/16": _LIGHT,
      "B/32": _LIGHT_DECAYED,
      "B/16": _MEDIUM,
      "B/8": "aug_medium2-wd_0.1-do_0.0-sd_0.0",
      "L/16": _STRONG,
      "R+Ti/16": _NONE,
      "R26+S/32": _LIGHT_DECAYED,
      "R50+L/32": _MEDIUM_DROPPED,
    }.items()
  },
  "augreg_i21k_i1k": {
    variant: {
      size: _fine_tuned(variant, "i21k", recipe, rate, size)
      for size, (recipe, rate) in recipes.items()
    }
    for variant, recipes in {
      "Ti/16": {224: (_NONE, "0.03"), 384: (_NONE, "0.03")},
      "S/32": {224: (_LIGHT, "0.03"), 384: (_NONE_DECAYED, "0.01")},
      "S/16": {224: (_LIGHT, "0.03"), 384: (_LIGHT, "0.03")},
      "B/32": {
        224: ("aug_medium1-wd_0.03-do_0.0-sd_0.0", "0.03"),
        384: (_LIGHT_DECAYED, "0.01"),
      },
      "B/16": {224: (_MEDIUM, "0.01"), 384: (_MEDIUM, "0.03")},
      "B/8": {224: (_MEDIUM, "0.01")},
      "L/16": {224: (_MEDIUM_DROPPED, "0.01"), 384: (_STRONG, "0.01")},
      "R+Ti/16": {224: (_NONE, "0.03"), 384: (_NONE, "0.03")},
      "R26+S/32": {
        224: ("aug_light0-wd_0.03-do_0.1-sd_0.1", "0.03"),
        384: (_LIGHT_DECAYED, "0.01"),
      },
      "R50+L/32": {
        224: (_MEDIUM_DROPPED, "0.01"),
        384: (_MEDIUM_DROPPED, "0.01"),
      },
    }.items()
  },
  "augreg_i1k": {
    variant: {
      size: _fine_tuned(variant, "i1k", recipe, "0.01", size)
      for size in (224, 384)
    }
    for variant, recipe in {
      "S/16": "aug_medium2-wd_0.1-do_0.0-sd_0.0",
      "B/32": "aug_medium2-wd_0.1-do_0.1-sd_0.1",
      "B/16": "aug_strong2-wd_0.1-do_0.1-sd_0.1",
    }.items()
  },
  "sam_i1k": {
    variant: {224: _original("sam", variant)} for variant in ("B/32", "B/16")
  },
}
COLLECTIONS = tuple(_FILES)


def names() -> list[str]:
  """Returns all short names with image sizes: 'augreg_i21k:B/16@224'."""
  return [
    f"{collection}:{variant}@{size}"
    for collection, variants in _FILES.items()
    for variant, sizes in variants.items()
    for size in sizes
  ]


def is_name(path: str) -> bool:
  """Returns True if a path names a file in the bucket."""
  collection, colon, _ = path.partition(":")
  return path.startswith(_BUCKET) or bool(colon and collection in COLLECTIONS)


def named(collection: str, variant: str, image_size: int) -> str:
  """Returns the name of a collection's file for a network.

  Args:
    collection: One of `COLLECTIONS`.
    variant: 'B/16', 'ViT-B/16' or 'R50+B/16'.
    image_size: Preferred side of the images, in pixels, if the collection has
      files for several.
  """
  variant = variant.removeprefix("ViT-")
  has_size = image_size in _FILES[collection].get(variant, {})
  return f"{collection}:{variant}" + (f"@{image_size}" if has_size else "")


def local(path: str) -> str:
  """Returns the local path of a file in the bucket, downloading it if needed.

  Args:
    path: 'COLLECTION:VARIANT' or 'COLLECTION:VARIANT@SIZE' from `names`, or
      'gs://vit_models/DIRECTORY/FILE.npz'.

  Raises:
    UserError: There is no such name or file, or it is not in the cache and
      cannot be downloaded.
  """
  return str(_fetched(path, file_of(path)))


def file_of(path: str) -> str:
  """Returns the file in the bucket for a name.

  Raises:
    UserError: There is no such file.
  """
  if path.startswith(_BUCKET):
    file = path.removeprefix(_BUCKET)
    if not _FILE.fullmatch(file):
      raise UserError(
        f"{path!r} is not the name of a file of weights; write"
        f" {_BUCKET}DIRECTORY/FILE.npz."
      )
    return file
  collection, _, rest = path.partition(":")
  variant, _, size = rest.removeprefix("ViT-").partition("@")
  variants = _FILES[collection]
  if variant not in variants:
    near = did_you_mean(variant, variants, cutoff=0.7)
    hint = f" Did you mean {collection}:{near}?" if near else ""
    raise UserError(
      f"{path!r} names no published weights.{hint} {collection} has"
      f" {', '.join(variants)}."
    )
  files = {str(pixels): file for pixels, file in variants[variant].items()}
  if size and size not in files:
    raise UserError(
      f"{path!r}: {collection}:{variant} was published for"
      f" {' and '.join(files)} pixels, not {size}; omit @{size}, as"
      " positions are resized to any size."
    )
  return files[size or next(iter(files))] + ".npz"


def _fetched(path: str, file: str) -> pathlib.Path:
  place = cache_directory.path() / "weights" / file
  if place.exists():
    return place
  # Imported late, as most runs download nothing.
  from vit_jax import downloads

  base = os.environ.get(MIRROR) or _ADDRESS
  url = f"{base.rstrip('/')}/{urllib.parse.quote(file, safe='/+')}"
  by_hand = f"Try again with a network, or give the path of a copy of {url}."
  try:
    place.parent.mkdir(parents=True, exist_ok=True)
    with downloads.arriving(place) as partial:
      downloads.fetch(url, partial)
      if not zipfile.is_zipfile(partial):
        raise downloads.DownloadError("what came is no .npz file")
  except downloads.DownloadError as error:
    if error.status == 404:
      raise UserError(f"{path}: there is no file {url}.") from None
    raise UserError(
      f"{path} cannot be fetched ({error}), and it is not in the cache."
      f" {by_hand}"
    ) from None
  except OSError as error:
    raise UserError(
      f"{path} cannot be kept in {place.parent} ({error.strerror or error})."
      " Make room there, or set XDG_CACHE_HOME to another directory."
    ) from None
  return place
