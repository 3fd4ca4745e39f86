"""Reconstruction of hidden patches: loss on a split, and a few images.

The files `evaluations/<name>/<step>/` are `reconstruction.json`, a list of
{"id", "loss"}, and for each id the images `images/<id>.png` (the original),
`<id>-masked.png` and `<id>-reconstruction.png`.
"""

import json
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from jaxtyping import Array

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.evaluators import contract, files, gallery
from vit_jax.evaluators.opening import open_image_split
from vit_jax.evaluators.split import Split
from vit_jax.sharding import mesh as meshes

_DRAWN = ("masked", "reconstruction")


def build(
  name: str, config: schema.ReconstructionEval, context: contract.Context
) -> "Reconstruction":
  """Opens the data of `config.evals.<name>`.

  Raises:
    UserError: The data is missing.
  """
  split = open_image_split(
    context,
    key=f"config.evals.{name}",
    dataset=config.dataset or context.config.train.dataset,
    split=config.split,
    preprocess=config.preprocess,
    batch_size=config.batch_size,
    image_key=config.image_key,
  )
  return Reconstruction(name, config, split, context)


class Reconstruction:
  """The objective's loss on hidden patches of all images of a split.

  Args:
    name: Key in `config.evals`.
    config: Entry of `config.evals`.
    split: The images.
    context: Context of the run.
  """

  def __init__(
    self,
    name: str,
    config: schema.ReconstructionEval,
    split: Split,
    context: contract.Context,
  ):
    self._name = name
    self._split = split
    self._context = context
    count = min(config.num_shown, split.num_examples)
    places = np.linspace(0, split.num_examples - 1, count)
    self._shown = np.unique(np.round(places).astype(np.int32))
    replicated = meshes.replicated(context.mesh)
    self._measure = jax.jit(self._measure_batch, out_shardings=replicated)
    self._draw = jax.jit(self._draw_batch, out_shardings=replicated)

  def run(self, state: contract.EvaluatedState, step: int) -> dict[str, float]:
    """`reconstruction/<name>/loss`, the mean over images, and `num_examples`.

    Raises:
      UserError: The parameters have no decoder, or a loss is not finite.
    """
    rows = self._split.measured(
      lambda batch: self._measure(state.eval_params, batch),
      lambda *_: self._context.heartbeat(),
    )
    losses = rows["loss"]
    if not np.isfinite(losses).all():
      raise UserError(
        f"{self._split.key}: the loss of some images is NaN or infinite, so the"
        " parameters are damaged; evaluate an earlier checkpoint."
      )
    if self._context.workdir is not None:
      self._write(state.eval_params, losses, step)
    name = f"reconstruction/{self._name}"
    return {
      f"{name}/loss": float(losses.mean(dtype=np.float64)),
      f"{name}/num_examples": float(len(losses)),
    }

  def _write(self, params: Any, losses: np.ndarray, step: int) -> None:
    images = self._split.images(self._shown)
    batch = jax.device_put(
      {"image": images, "id": self._shown},
      meshes.replicated(self._context.mesh),
    )
    drawn = jax.device_get(self._draw(params, batch))
    if jax.process_index() == 0:
      workdir = epath.Path(self._context.workdir)
      with files.replacing(
        workdir / f"evaluations/{self._name}/{step}"
      ) as path:
        entries = []
        for row, example in enumerate(self._shown.tolist()):
          entries.append({"id": example, "loss": float(losses[example])})
          pixels = {"": images, **{f"-{n}": drawn[n] for n in _DRAWN}}
          for suffix, of_all in pixels.items():
            (path / f"images/{example}{suffix}.png").write_bytes(
              gallery.encode(gallery.thumbnail(of_all[row]))
            )
        text = json.dumps(entries) + "\n"
        (path / "reconstruction.json").write_text(text)

  def _measure_batch(
    self, params: Any, batch: Mapping[str, Array]
  ) -> dict[str, Array]:
    outputs = self._outputs(params, batch)
    loss = outputs["reconstruction_loss"].astype(jnp.float32)
    return {"loss": loss, "id": batch["id"], "mask": batch["mask"]}

  def _draw_batch(
    self, params: Any, batch: Mapping[str, Array]
  ) -> dict[str, Array]:
    outputs = self._outputs(params, batch)
    return {name: outputs[name] for name in _DRAWN}

  def _outputs(
    self, params: Any, batch: Mapping[str, Array]
  ) -> Mapping[str, Array]:
    outputs = self._context.outputs(params, batch)
    if "reconstruction" not in outputs:
      raise UserError(
        f"{self._split.key} draws what a decoder predicts, but the checkpoint"
        " has the network alone; name the workdir of its pre-training."
      )
    return outputs
