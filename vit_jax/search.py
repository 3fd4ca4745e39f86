"""Searches a folder of images by texts and by images.

  python -m vit_jax.search --checkpoint=clip-vit-base-patch32 \\
      --index=photos.index --images=photos "a dog on grass" "snow at night"
  python -m vit_jax.search --checkpoint=clip-vit-base-patch32 \\
      --index=photos.index cat.jpg --json

CHECKPOINT has an image tower and a text tower (CLIP, SigLIP): a workdir, one of
its checkpoints/STEP, a published file or a Hugging Face directory. With any
other checkpoint, only images can be queries.

INDEX stores the embeddings of all images in a folder and its subfolders. The
first call creates it from the folder that --images names. Later calls embed
only images that are new or have changed (path, size and time of the file) and
drop those that are gone; --noupdate uses the index unchanged. If a call is
killed, the next one continues it. Without a query, the index is only updated.

A query is an image if it names a file or has the suffix of an image (.jpg,
.jpeg, .png, .webp, .bmp, .gif, .tif, .tiff, .avif, and with pillow-heif .heic
and .heif), and a text otherwise; a folder is refused. The results are printed
and shown on a contact sheet, INDEX/results.html or --output. --json prints one
document:

  {"checkpoint": PATH, "step": NUMBER or null, "index": PATH, "images": FOLDER,
   "num_images": NUMBER, "output": PATH or null,
   "queries": [{"query": TEXT or PATH, "kind": "text" or "image",
     "results": [{"path": PATH, "score": COSINE}, ...]}, ...],
   "unreadable": [{"path": PATH, "problem": SENTENCE}, ...]}
"""

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags

from vit_jax import command_line, named_weights, records, truncate
from vit_jax.errors import UserError
from vit_jax.printable import on_one_line

if TYPE_CHECKING:
  import numpy as np

  from vit_jax.pretrained.inference import Inference
  from vit_jax.searching.index import Hit, Index
  from vit_jax.tokenization.tokenizer import Tokenizer

PAGE = "results.html"


def define_flags() -> None:
  flags.DEFINE_string("checkpoint", None, f"{command_line.CHECKPOINT_HELP}.")
  flags.DEFINE_string("index", None, "Directory that stores the embeddings.")
  flags.DEFINE_string(
    "images", None, "Folder to search; required to create INDEX."
  )
  flags.DEFINE_bool(
    "update", True, "Look for new, changed and removed images first."
  )
  flags.DEFINE_string(
    "tokenizer", None, "Tokenizer for texts; by default the checkpoint's."
  )
  flags.DEFINE_integer(
    "top_k", 20, "Number of images shown for each query.", lower_bound=1
  )
  flags.DEFINE_string(
    "output", None, f"HTML file for the contact sheet; by default INDEX/{PAGE}."
  )
  flags.DEFINE_bool("json", False, "Print one JSON document.")


def main(argv: Sequence[str]) -> int:
  # We report a broken file in one sentence; TensorFlow would print a page.
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  given = flags.FLAGS
  if not given.checkpoint:
    raise UserError(command_line.NO_CHECKPOINT)
  if not given.index:
    raise UserError(
      "No index was named: give --index=DIR, a directory that is made to keep"
      " the embeddings of your images."
    )
  return search(
    given.checkpoint,
    given.index,
    argv[1:],
    images=given.images,
    update=given.update,
    tokenizer=given.tokenizer,
    top_k=given.top_k,
    output=given.output,
    as_json=given.json,
  )


def search(
  checkpoint: str,
  directory: str,
  queries: Sequence[str] = (),
  *,
  images: str | None = None,
  update: bool = True,
  tokenizer: str | None = None,
  top_k: int = 20,
  output: str | None = None,
  as_json: bool = False,
) -> int:
  """Prints and shows the images nearest to each query.

  Args:
    checkpoint: Path of a checkpoint in any format.
    directory: Path of the index, which is created if it does not exist.
    queries: Texts, and paths of images.
    images: Folder of the images; None for that of the index.
    update: True to update the index to match the folder first.
    tokenizer: Path of the tokenizer; None for the checkpoint's.
    top_k: Number of images for each query.
    output: Path of the contact sheet; None for one in the index.
    as_json: True to print one JSON document instead of tables.

  Returns:
    The exit code.

  Raises:
    UserError: The checkpoint cannot be read, the index belongs to a different
      one, the index or the contact sheet cannot be written, or a query is
      invalid.
  """
  from vit_jax.pretrained import inference, text_tokenizer
  from vit_jax.searching import embedding
  from vit_jax.searching import index as indexes

  # A shell does not expand it in --index=~/photos.index.
  directory = os.path.expanduser(directory)
  images = images and os.path.expanduser(images)
  output = output and os.path.expanduser(output)
  if queries and output and not _is_in(output, directory):
    command_line.check_writable("output", output)
  asked = [_Query.parse(query) for query in queries]
  known = indexes.source_of(directory)
  if known is None and (images is None or not update):
    raise UserError(
      f"There is no index at {directory} yet; name the folder of the images"
      " once, as --images=DIR."
    )
  use = inference.read(checkpoint)
  loaded = None
  if not all(query.is_image for query in asked):
    loaded = text_tokenizer.read(use, checkpoint, tokenizer)
  source = indexes.Source(
    images=known.images if images is None else os.path.abspath(images),
    checkpoint=_absolute(checkpoint),
    step=use.step,
    fingerprint=embedding.fingerprint(use),
  )
  if known is not None:
    indexes.check(known, source, directory)
  # Before working on the index, as an unreadable query ends the command.
  embedded = _embedded(use, asked, loaded)
  if update:
    found = _update(use, directory, source)
  else:
    found = indexes.load(directory, source)
  hits = found.search(embedded, top_k) if asked else []
  answers = list(zip(asked, hits, strict=True))
  if asked:
    output = output or os.path.join(directory, PAGE)
    command_line.writing(_write, output, _page(found, answers))
  if as_json:
    page = output if asked else None
    print(json.dumps(_document(found, answers, page), indent=2))
    return 0
  for query, answer in answers:
    print(_table(query, answer))
  print(_summary(found))
  if asked:
    print(f"wrote {on_one_line(output)}")
  return 0


def _is_in(output: str, directory: str) -> bool:
  """Returns True for a page in the index's directory, created if needed."""
  return os.path.dirname(os.path.abspath(output)) == os.path.abspath(directory)


@dataclasses.dataclass(frozen=True)
class _Query:
  """A text, or the path of a picture."""

  text: str
  is_image: bool

  @classmethod
  def parse(cls, text: str) -> "_Query":
    """Tells pictures from texts.

    Raises:
      UserError: The query is empty, a folder, or a picture that does not exist.
    """
    from vit_jax.data import image_formats

    if not text.strip():
      raise UserError("A query is empty; describe what the images should show.")
    if os.path.isfile(text):
      return cls(text, is_image=True)
    if os.path.isdir(text):
      raise UserError(
        f"The query {text} is a folder; name one of its images, or, if that"
        " text is meant, write it with a space at its end."
      )
    if text.lower().endswith(image_formats.SUFFIXES):
      raise UserError(
        f"The query {text} is the name of an image, but there is none."
      )
    return cls(text, is_image=False)


def _absolute(checkpoint: str) -> str:
  if "://" in checkpoint or named_weights.is_name(checkpoint):
    return checkpoint
  return os.path.abspath(os.path.expanduser(checkpoint))


def _embedded(
  use: "Inference",
  queries: Sequence[_Query],
  tokenizer: "Tokenizer | None",
) -> "np.ndarray":
  """Computes embeddings of the queries in order, float32 [q, e].

  Raises:
    UserError: A query is a file but not an image.
  """
  import numpy as np

  from vit_jax.evaluators import file_outputs
  from vit_jax.searching import embedding

  pictures = [query.text for query in queries if query.is_image]
  texts = [query.text for query in queries if not query.is_image]
  of_pictures, of_texts = [], []
  if pictures:
    side = use.weights.model.image_size
    size = file_outputs.batch_size(side, len(pictures))
    for file, row in embedding.of_images(use, pictures, batch_size=size):
      if row is None:
        raise UserError(f"The query {on_one_line(file.problem)}")
      of_pictures.append(row)
  if texts:
    assert tokenizer is not None
    of_texts = embedding.of_texts(use, tokenizer, texts)
  rows = {True: iter(of_pictures), False: iter(of_texts)}
  return np.array([next(rows[query.is_image]) for query in queries])


def _update(use: "Inference", directory: str, source) -> "Index":
  from vit_jax.evaluators import file_outputs
  from vit_jax.searching import embedding, updating

  size = file_outputs.batch_size(use.weights.model.image_size)
  return updating.update(
    directory,
    source,
    lambda paths: embedding.of_images(use, paths, batch_size=size),
    shard_size=-(-updating.SHARD_SIZE // size) * size,
  )


def _page(
  found: "Index", answers: "Sequence[tuple[_Query, Sequence[Hit]]]"
) -> bytes:
  from vit_jax.report import contact_sheet
  from vit_jax.searching import thumbnails

  paths = [hit.path for _, hits in answers for hit in hits]
  asked = [query.text for query, _ in answers if query.is_image]
  small = thumbnails.jpegs([*paths, *asked])
  Picture = contact_sheet.Picture
  return contact_sheet.render(
    [
      contact_sheet.Answer(
        query.text,
        Picture(query.text, small[query.text]) if query.is_image else None,
        [Picture(hit.path, small[hit.path], hit.score) for hit in hits],
      )
      for query, hits in answers
    ],
    images=found.source.images,
    num_images=found.num_images,
    num_unreadable=len(found.unreadable),
    checkpoint=found.source.checkpoint,
    step=found.source.step,
  )


def _document(
  found: "Index",
  answers: "Sequence[tuple[_Query, Sequence[Hit]]]",
  page: str | None,
) -> dict[str, object]:
  return {
    "checkpoint": found.source.checkpoint,
    "step": found.source.step,
    "index": found.directory,
    "images": found.source.images,
    "num_images": found.num_images,
    "output": page,
    "queries": [
      {
        "query": query.text,
        "kind": "image" if query.is_image else "text",
        "results": [{"path": h.path, "score": h.score} for h in hits],
      }
      for query, hits in answers
    ],
    "unreadable": [
      {
        "path": os.path.join(found.source.images, entry.path),
        "problem": entry.problem,
      }
      for entry in found.unreadable
    ],
  }


def _table(query: _Query, hits: "Sequence[Hit]") -> str:
  rows = [f"  {hit.score:7.3f}  {on_one_line(hit.path)}" for hit in hits]
  return "\n".join([on_one_line(query.text), *rows])


def _summary(found: "Index") -> str:
  count = f"{found.num_images:,} images of {found.source.images} are indexed"
  names = [on_one_line(entry.path) for entry in found.unreadable]
  if not names:
    return f"{count}."
  return (
    f"{count}; {len(names)} left out, being no images that can be read:"
    f" {truncate.first(names, 5)}."
  )


def _write(path: str, value: object) -> None:
  assert isinstance(value, bytes)
  with records.replacing(path) as partial:
    partial.write_bytes(value)


if __name__ == "__main__":
  define_flags()
  command_line.run(main)
