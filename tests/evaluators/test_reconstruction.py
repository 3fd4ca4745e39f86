"""The reconstruction evaluator."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from etils import epath
from PIL import Image

from tests import experiments
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.evaluators import build as evaluators_build
from vit_jax.evaluators import reconstruction


def outputs(params, batch):
  """A decoder that draws the negative, with losses that ids tell."""
  images = batch["image"]
  found = {"pre_logits": images}
  if "decoder" in params:
    found |= {
      "reconstruction": 255 - images,
      "masked": images // 2,
      "reconstruction_loss": batch["id"] * params["decoder"],
    }
  return found


@pytest.fixture
def run(make_problem, make_split, make_context, tmp_path):
  """Runs the evaluator on 37 images; gives the metrics and their files."""
  images, labels, state = make_problem(37)
  state.eval_params["decoder"] = jnp.float32(0.5)

  def run(*, state=state, split=None, **context):
    split = split or make_split(images, labels, shuffled=True)
    split.images = lambda ids: images[ids]
    evaluator = reconstruction.Reconstruction(
      "val",
      schema.ReconstructionEval(type="reconstruction", num_shown=4),
      split,
      make_context(outputs=outputs, workdir=epath.Path(tmp_path), **context),
    )
    metrics = evaluator.run(state, 7)
    return metrics, tmp_path / "evaluations" / "val" / "7", images

  return run


def test_the_loss_is_the_mean_over_every_image_once(run):
  metrics, _, _ = run()
  wanted = np.mean([0.5 * number for number in range(37)])
  assert metrics == {
    "reconstruction/val/loss": pytest.approx(wanted),
    "reconstruction/val/num_examples": 37,
  }


def test_a_few_images_are_kept_for_the_report(run):
  _, directory, images = run()
  entries = json.loads((directory / "reconstruction.json").read_text())
  assert [entry["id"] for entry in entries] == [0, 12, 24, 36]
  assert entries[1]["loss"] == 6
  pixels = {
    suffix: np.asarray(Image.open(directory / "images" / f"12{suffix}.png"))
    for suffix in ("", "-masked", "-reconstruction")
  }
  np.testing.assert_array_equal(pixels[""], images[12])
  np.testing.assert_array_equal(pixels["-masked"], images[12] // 2)
  np.testing.assert_array_equal(pixels["-reconstruction"], 255 - images[12])


def test_parameters_without_a_decoder_are_refused(run, make_problem):
  _, _, state = make_problem(37)
  state.eval_params.pop("decoder", None)
  with pytest.raises(UserError, match="has the network alone"):
    run(state=state)


def test_losses_that_are_not_finite_are_refused(run, make_problem):
  _, _, state = make_problem(37)
  state.eval_params["decoder"] = jnp.float32(np.nan)
  with pytest.raises(UserError, match=r"config\.evals\.test.* NaN"):
    run(state=state)


def test_an_objective_that_draws_nothing_is_refused():
  entry = schema.ReconstructionEval(type="reconstruction")
  config = experiments.config().model_copy(update={"evals": {"val": entry}})
  with pytest.raises(UserError, match='objective "supervised" has no decoder'):
    evaluators_build.check(config)
