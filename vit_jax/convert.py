"""Converts a checkpoint of any form into another form.

  python -m vit_jax.convert runs/photos photos.npz
  python -m vit_jax.convert runs/photos/checkpoints/4000 photos_hf
  python -m vit_jax.convert B_16.npz b16_384.stablehlo --image_size=384

  python -m vit_jax.convert SRC DST

SRC is a workdir (the newest step is read, and the average of its parameters if
there is one), one of its checkpoints/STEP, a published .npz, .safetensors or
.pth file, or a directory of Hugging Face or timm. DST is a path that does not
exist yet:

  NAME.npz        parameters under google-research's names
  NAME            directory that transformers opens, with a model card: Hugging
                  Face's form if it has such a network, else timm's
  NAME with --to=huggingface or --to=timm    that form only
  NAME.safetensors    parameters under timm's names, in one file
  NAME.stablehlo  network and parameters in one file that requires only jax:
                    from jax import export
                    data = bytearray(open("NAME.stablehlo", "rb").read())
                    logits = export.deserialize(data).call(images)
                  for images of uint8 [n, size, size, 3]; for CLIP and SigLIP a
                  directory with such a file for images, one for texts, their
                  scale and bias, and the tokenizer
  NAME with --to=workdir     workdir with one checkpoint
  NAME with --to=open_clip   directory of open_clip, for a CLIP or a SigLIP
  hf:OWNER/NAME   repository on the Hugging Face hub, with a model card and the
                  report of the run, private until it is made public on its
                  page; needs `hf auth login`
"""

import dataclasses
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from absl import flags
from etils import epath

from vit_jax import command_line, hub
from vit_jax.errors import UserError
from vit_jax.weights import path_errors

if TYPE_CHECKING:
  from vit_jax.pretrained.inference import Inference


def define_flags() -> None:
  flags.DEFINE_enum(
    "to",
    None,
    list(FORMS),
    "Form of DST, if its name does not determine it.",
  )
  flags.DEFINE_integer(
    "image_size",
    None,
    "Side of the images in pixels, to which position embeddings are resized.",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "num_classes",
    None,
    "Number of classes of a new zero-initialised head, which replaces SRC's.",
    lower_bound=1,
  )
  flags.DEFINE_enum(
    "dtype",
    None,
    ["float32", "bfloat16"],
    "Dtype of parameters and computation in a .stablehlo; by default float32.",
  )


def main(argv: Sequence[str]) -> None:
  if len(argv) != 3:
    raise UserError(
      "Name two paths, as in: python -m vit_jax.convert runs/photos photos.npz"
    )
  convert(
    *argv[1:],
    to=flags.FLAGS.to,
    image_size=flags.FLAGS.image_size,
    num_classes=flags.FLAGS.num_classes,
    dtype=flags.FLAGS.dtype,
  )


def convert(
  src: str,
  dst: str,
  *,
  to: str | None = None,
  image_size: int | None = None,
  num_classes: int | None = None,
  dtype: str | None = None,
) -> None:
  """Reads `src`, writes `dst` and prints a line about each.

  Args:
    src: A checkpoint in any format.
    dst: Path that does not exist yet, or 'hf:OWNER/NAME'.
    to: Format of `dst`, a key of `FORMS`; None to infer it from the name.
    image_size: Side of the images, in pixels; None for that of `src`.
    num_classes: Number of outputs of a new head of zeros; None keeps the head.
    dtype: Dtype of the parameters in a .stablehlo file.

  Raises:
    UserError: `src` cannot be read, `dst` exists, or its format cannot hold the
      network.
  """
  is_upload = hub.is_name(dst)
  form = _uploaded_form(to) if is_upload else _form(dst, to)
  repository = hub.check_free(dst) if is_upload else None
  if dtype is not None and form != "stablehlo":
    raise UserError(
      f"--dtype is for .stablehlo files; in {dst} parameters are float32."
    )
  if not is_upload:
    _check_free(dst)
  # Heavy imports come after all checks that are immediate.
  from vit_jax import trees
  from vit_jax.config import names
  from vit_jax.pretrained import inference, save

  source = inference.read(src)
  if image_size is not None or num_classes is not None:
    source = source.adapted(image_size=image_size, num_classes=num_classes)
  model = source.weights.model
  what = "numbers" if source.weights.predicts_numbers else "classes"
  head = f"{model.num_classes} {what}" if model.num_classes else "no head"
  step = "" if source.step is None else f", step {source.step}"
  print(
    f"read {src}: {names.describe(model)}, {head},"
    f" {trees.num_elements(source.weights.params):,} parameters{step}"
  )
  reason = None
  if form is None:
    form, reason = save.directory_form(model)
  why = "" if reason is None else f", as {reason}"
  if repository is None:
    done, notes = "wrote", _write(dst, form, source, dtype)
  else:
    done, notes = "uploaded", _upload(src, repository, form, source)
  print("; ".join((f"{done} {dst}: {FORMS[form]}{why}", *notes)))


def _check_free(dst: str) -> None:
  with path_errors.explained(dst):
    exists = epath.Path(dst).exists()
  if exists:
    raise UserError(
      f"{dst} exists, and nothing is overwritten; remove it, or name another."
    )


def _upload(
  src: str, repository: str, form: str, source: "Inference"
) -> Sequence[str]:
  """Uploads a directory; returns its page and the sentences of `_write`."""
  report = _report(source)
  with tempfile.TemporaryDirectory() as scratch:
    directory = epath.Path(scratch) / repository.partition("/")[2]
    notes = _write(
      os.fspath(directory),
      form,
      source,
      repository=repository,
      report=None if report is None else _REPORT,
    )
    if report is not None:
      report.copy(directory / _REPORT)
    page = hub.push(os.fspath(directory), repository, f"Add {src} of vit_jax")
  return (page, *notes)


def _report(source: "Inference") -> epath.Path | None:
  """Returns the report of a checkpoint's run, if there is one."""
  if source.step is None:
    return None
  from vit_jax.pretrained import reading

  workdir, _ = reading.locate(source.weights.path)
  report = workdir / "report" / "index.html"
  return report if report.exists() else None


def _uploaded_form(to: str | None) -> str | None:
  """Returns the format of a repository; None for any directory format."""
  if to not in (None, *_UPLOADED):
    raise UserError(
      f"--to={to} is not a form for the hub; leave it out, or take one of"
      f" {', '.join(_UPLOADED)}."
    )
  return to


def _form(dst: str, to: str | None) -> str | None:
  """Returns DST's format, a key of FORMS; None for any directory format."""
  suffix = epath.Path(dst).suffix
  if suffix == ".pt":
    raise UserError(
      f"{dst} ends in '.pt': such files, as OpenAI's of CLIP, hold a program of"
      " TorchScript, and are read but not written; for open_clip give a name"
      " without a suffix and --to=open_clip."
    )
  if to is None and suffix not in _BY_SUFFIX:
    raise UserError(
      f"{dst} ends in '{suffix}', a form that cannot be written; give"
      " NAME.npz, NAME.safetensors, NAME.stablehlo, or a name without a suffix"
      " for a directory."
    )
  if to is not None and suffix and _BY_SUFFIX.get(suffix, to) != to:
    raise UserError(
      f"{dst} ends in '{suffix}', which is another form than --to={to}; give a"
      " name that goes with it, or leave --to out."
    )
  return _BY_SUFFIX[suffix] if to is None else to


def _write(
  dst: str,
  form: str,
  source: "Inference",
  dtype: str | None = None,
  repository: str | None = None,
  report: str | None = None,
) -> Sequence[str]:
  """Writes a format; returns a sentence about each thing it changes."""
  if form == "stablehlo":
    from vit_jax.aot import export

    export.write(
      dst,
      source.weights,
      dtype=dtype or "float32",
      tokenizer=_tokenizer_files(source),
    )
    return ()
  if form == "workdir":
    from vit_jax.pretrained import workdir

    workdir.write(dst, source)
    return _missing_tokenizer(source, form)
  from vit_jax import registry
  from vit_jax.pretrained import save

  card = None
  if form in _WITH_CARD:
    card = _card(epath.Path(dst).name, form, source, repository, report)
  weights = source.weights
  has_text = registry.FAMILIES.get(weights.model.name).has_text
  if has_text and not source.is_preprocess_told:
    # Written like the family's published networks, not as we assume.
    weights = dataclasses.replace(weights, preprocess=None)
  notes = save.write(dst, weights, form, card)
  return (*notes, *_missing_tokenizer(source, form))


def _card(
  name: str,
  form: str,
  source: "Inference",
  repository: str | None,
  report: str | None,
) -> str:
  """Returns the text of a model card."""
  from vit_jax.pretrained import reading
  from vit_jax.weights import model_card, training_record

  training = None
  if source.step is not None:
    directory, _ = reading.locate(source.weights.path)
    training = training_record.read(directory, source.step)
  return model_card.text(
    name,
    source.weights,
    training,
    library=_WITH_CARD[form],
    repository=repository,
    report=report,
  )


def _missing_tokenizer(source: "Inference", form: str) -> Sequence[str]:
  """Returns a sentence about the tokenizer if the network has a text tower."""
  from vit_jax import registry, weight_paths
  from vit_jax.pretrained import reading, run_files, text_tokenizer

  if not registry.FAMILIES.get(source.weights.model.name).has_text:
    return ()
  place = source.weights.path
  try:
    text_tokenizer.read(source, place)
  except UserError:
    return [f"no tokenizer is written, as {place} has none"]
  if form in ("npz", "safetensors"):
    return [f"no tokenizer is written; where one is needed, name {place}"]
  if source.step is not None:
    directory, _ = reading.locate(place)
    place = directory / run_files.TOKENIZER
  else:
    place = weight_paths.folder(place) or place
  return [f"no tokenizer is written; copy its files from {place}"]


def _tokenizer_files(source: "Inference") -> Mapping[str, bytes] | None:
  """Returns the files of a checkpoint's tokenizer; None if it has none."""
  from vit_jax import registry
  from vit_jax.pretrained import text_tokenizer

  if not registry.FAMILIES.get(source.weights.model.name).has_text:
    return None
  try:
    return text_tokenizer.read(source, source.weights.path).files
  except UserError:
    print(f"{source.weights.path} has no tokenizer, so none is written")
    return None


# Formats of DST, as named in messages.
FORMS = {
  "npz": "published names",
  "safetensors": "timm's names",
  "huggingface": "Hugging Face directory",
  "timm": "timm's directory",
  "open_clip": "open_clip's directory",
  "stablehlo": "StableHLO for CPU, GPU and TPU",
  "workdir": "workdir",
}
# Formats that a hub repository may have.
_UPLOADED = ("huggingface", "timm", "open_clip")
_WITH_CARD = {"huggingface": "transformers", "timm": "timm"}
_REPORT = "report.html"
_BY_SUFFIX = {
  ".npz": "npz",
  ".safetensors": "safetensors",
  ".stablehlo": "stablehlo",
  "": None,
}


if __name__ == "__main__":
  define_flags()
  command_line.run(main)
