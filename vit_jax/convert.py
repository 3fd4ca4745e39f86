"""Turns a checkpoint of any form into another form.

  python -m vit_jax.convert runs/photos photos.npz
  python -m vit_jax.convert runs/photos/checkpoints/4000 photos_hf
  python -m vit_jax.convert B_16.npz b16_384.stablehlo --image_size=384

  python -m vit_jax.convert SRC DST

SRC is a workdir (its newest step counts, and the average of the parameters if
there is one), one of its checkpoints/STEP, a published .npz or .safetensors
file, or a Hugging Face directory. DST is a name that is still free:

  NAME.npz        google-research's names of parameters
  NAME            Hugging Face directory, with a model card
  NAME.stablehlo  network and parameters in one file that needs nothing but jax:
                    from jax import export
                    data = bytearray(open("NAME.stablehlo", "rb").read())
                    logits = export.deserialize(data).call(images)
                  for images of uint8 [n, size, size, 3]
  NAME with --to=workdir   workdir with one checkpoint
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags
from etils import epath

from vit_jax import command_line
from vit_jax.errors import UserError
from vit_jax.weights import path_errors

if TYPE_CHECKING:
  from vit_jax.pretrained.inference import Inference


def define_flags() -> None:
  flags.DEFINE_enum(
    "to",
    None,
    list(FORMS),
    "Form of DST, where its name does not say it.",
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
    "Classes of a new head of zeros in place of SRC's.",
    lower_bound=1,
  )
  flags.DEFINE_enum(
    "dtype",
    None,
    ["float32", "bfloat16"],
    "Parameters and computation of a .stablehlo; by default float32.",
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
  """Reads `src` and writes `dst`, saying what they are.

  Raises:
    UserError: `src` cannot be read, `dst` is there already, or what was read
      cannot be told in that form.
  """
  form = _form(dst, to)
  if dtype is not None and form != "stablehlo":
    raise UserError(
      f"--dtype is of .stablehlo files; in {dst} parameters are float32."
    )
  with path_errors.explained(dst):
    exists = epath.Path(dst).exists()
  if exists:
    raise UserError(
      f"{dst} exists, and nothing is overwritten; remove it, or name another."
    )
  # Heavy imports come after all that can be said at once.
  from vit_jax import trees
  from vit_jax.config import names
  from vit_jax.pretrained import inference

  source = inference.read(src)
  if image_size is not None or num_classes is not None:
    source = source.adapted(image_size=image_size, num_classes=num_classes)
  model = source.weights.model
  head = f"{model.num_classes} classes" if model.num_classes else "no head"
  step = "" if source.step is None else f", step {source.step}"
  print(
    f"read {src}: {names.describe(model)}, {head},"
    f" {trees.num_elements(source.weights.params):,} parameters{step}"
  )
  called, write = FORMS[form]
  write(dst, source, dtype)
  print(f"wrote {dst}: {called}")


def _form(dst: str, to: str | None) -> str:
  """The form that DST is written in, a key of FORMS."""
  suffix = epath.Path(dst).suffix
  if to is None and suffix not in _BY_SUFFIX:
    raise UserError(
      f"{dst} ends in '{suffix}', which is no form that is written; give"
      " NAME.npz, NAME.stablehlo, or a name without a suffix for a Hugging Face"
      " directory."
    )
  return _BY_SUFFIX[suffix] if to is None else to


def _write_npz(dst: str, source: "Inference", dtype: str | None) -> None:
  from vit_jax.weights.spellings import npz

  del dtype
  weights = source.weights
  npz.write(
    epath.Path(dst),
    weights.model,
    weights.params,
    weights.class_names,
    preprocess=weights.preprocess,
    activation=weights.activation,
  )


def _write_huggingface(
  dst: str, source: "Inference", dtype: str | None
) -> None:
  from vit_jax.pretrained import reading
  from vit_jax.weights import model_card, training_record
  from vit_jax.weights.spellings import huggingface

  del dtype
  training = None
  if source.step is not None:
    training = training_record.read(*reading.locate(source.weights.path))
  card = model_card.text(epath.Path(dst).name, source.weights, training)
  huggingface.write(dst, source.weights, card)


def _write_stablehlo(dst: str, source: "Inference", dtype: str | None) -> None:
  from vit_jax.aot import export

  export.write(dst, source.weights, dtype=dtype or "float32")


def _write_workdir(dst: str, source: "Inference", dtype: str | None) -> None:
  from vit_jax.pretrained import workdir

  del dtype
  workdir.write(dst, source)


# Form -> what it is called, and what writes it.
FORMS = {
  "npz": ("published names", _write_npz),
  "huggingface": ("Hugging Face directory", _write_huggingface),
  "stablehlo": ("StableHLO for CPU, GPU and TPU", _write_stablehlo),
  "workdir": ("workdir", _write_workdir),
}
_BY_SUFFIX = {".npz": "npz", ".stablehlo": "stablehlo", "": "huggingface"}


if __name__ == "__main__":
  define_flags()
  command_line.run(main)
