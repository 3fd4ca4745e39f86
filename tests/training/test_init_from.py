"""A run that starts from a checkpoint of another form and architecture."""

import jax
import numpy as np
import pytest
from etils import epath

from tests import experiments
from tests.checkpoint import runs
from tests.models import networks
from vit_jax import trees
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.rundir.run_directory import RunDirectory
from vit_jax.rundir.timing import Clock
from vit_jax.training import dry_run
from vit_jax.weights import flat
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import npz

HEAD = {"head/kernel", "head/bias"}
KEYS = dict(variant="Ti/4", width=32, depth=2, num_heads=4, mlp_dim=64)


def saved(path, **keys):
  """A checkpoint of the experiments' model, for 16 pixels and 10 classes."""
  network = networks.tiny(
    num_classes=10, image_size=16, representation_size=24, **(KEYS | keys)
  )
  params = networks.random_params(network)
  model = build.config_of(network)
  if path.suffix == ".npz":
    npz.write(epath.Path(path), Weights("test", model, params))
  else:
    runs.write(path, model, {3: params})
  return str(path), params


def started(workdir, **changes):
  """The parameters that a run begins with, by name, and its experiment."""
  parts = experiments.build(**changes)
  with RunDirectory(str(workdir), parts, Clock()) as directory:
    state = directory.restore_or_init()
    directory.finish("finished")
  return dict(trees.named_leaves(state.params)), parts, state


@pytest.mark.parametrize("scan", [False, True])
@pytest.mark.parametrize("form", ["x.npz", "run"])
def test_head_and_grid_change_and_the_body_stays(tmp_path, form, scan, caplog):
  path, given = saved(tmp_path / form, scan_layers=form == "run")
  params, parts, _ = started(
    tmp_path / "new", init_from=path, model__scan_layers=scan
  )
  fresh = dict(trees.named_leaves(parts.init_state().params))
  assert params.keys() == fresh.keys()
  norm = "Transformer/encoderblock{}/LayerNorm_0/scale"
  given = flat.flatten(given)
  if norm.format("") not in given:
    given[norm.format("")] = np.stack(
      [given.pop(norm.format(f"_{i}")) for i in range(2)]
    )
  if norm.format("") not in params:
    params[norm.format("")] = np.stack(
      [params.pop(norm.format(f"_{i}")) for i in range(2)]
    )
  for name in (norm.format(""), "embedding/kernel", "cls"):
    np.testing.assert_array_equal(params[name], given[name])
  for name in HEAD:
    np.testing.assert_array_equal(params[name], 0)
  for note in ("4 x 4 to 2 x 2", "pre-training head is dropped", "4 classes"):
    assert note in caplog.text


def test_parameters_lie_on_the_mesh_and_the_average_starts_there(tmp_path):
  path, given = saved(tmp_path / "x.npz")
  params, parts, state = started(
    tmp_path / "new", init_from=path, ema_decay=0.9, mesh__fsdp=2
  )
  wanted = dict(trees.named_leaves(parts.abstract_state.params))
  for name, leaf in params.items():
    assert leaf.sharding == wanted[name].sharding
  jax.tree.map(np.testing.assert_array_equal, state.ema_params, state.params)


@pytest.mark.parametrize(
  ("kind", "tables"),
  [
    ("learned_2d", {"posembed_input/x_embedding": 2}),
    ("relative", {"posembed/relative_keys": 9}),
  ],
)
def test_positions_of_the_paper_s_study_change_resolution(
  tmp_path, kind, tables
):
  """Table 8's networks: 16 pixels, 4 x 4 patches, to 8 pixels, 2 x 2."""
  path, given = saved(tmp_path / "x.npz", pos_embedding=kind)
  params, parts, state = started(
    tmp_path / "new", init_from=path, model__pos_embedding=kind
  )
  given = flat.flatten(given)
  for name, places in tables.items():
    name = f"Transformer/{name}"
    assert params[name].shape[1] == places
    # Corners stay where they are.
    for corner in (0, -1):
      np.testing.assert_allclose(
        params[name][:, corner], given[name][:, corner], rtol=1e-6
      )
  logits = parts.objective.outputs(state.params, experiments.batch(parts))
  assert all(np.isfinite(x).all() for x in jax.tree.leaves(logits))


def test_named_parameters_start_afresh(tmp_path):
  path, given = saved(tmp_path / "x.npz")
  params, _, _ = started(
    tmp_path / "new", init_from=path, init_without=("embedding/.*",)
  )
  assert (params["embedding/bias"] == 0).all()
  np.testing.assert_array_equal(params["cls"], given["cls"])


def test_another_body_is_a_table(tmp_path):
  path, _ = saved(tmp_path / "x.npz", depth=3)
  with pytest.raises(UserError, match="set config.model.depth=3 .it is 2."):
    started(tmp_path / "new", init_from=path)


def test_a_misfit_is_told_before_anything_is_compiled(tmp_path):
  path, _ = saved(tmp_path / "x.npz", depth=3)
  parts = experiments.build(init_from=path)
  with pytest.raises(UserError, match="config.model.depth=3"):
    RunDirectory(str(tmp_path / "new"), parts, Clock())


def test_a_dry_run_tells_a_misfit_before_it_makes_a_step(tmp_path):
  path, _ = saved(tmp_path / "x.npz", depth=3)
  made, said = [], []
  with pytest.raises(UserError, match="config.model.depth=3"):
    for piece in dry_run.describe(
      experiments.config(init_from=path), made.append
    ):
      said.append(piece)  # noqa: PERF402 What came before counts.
  assert not made
  # The sentence begins a line of its own.
  assert said[-1].endswith("\n")


def test_a_dry_run_says_what_is_taken_over(tmp_path):
  path, _ = saved(tmp_path / "x.npz")
  text = "".join(dry_run.describe(experiments.config(init_from=path), None))
  start = text.split("== Start ==\n")[1].split("\n\n")[0].splitlines()
  assert start[0].endswith(f"parameters are those of {path}.")
  assert "A new head of 4 classes is initialised." in start
