from tests.report import workdirs
from vit_jax.config import evaluator_declarations, schema
from vit_jax.report import load, panels

HEALTH = {
  "train/teacher_entropy": (4.0, 2.5),
  "train/kl_to_student": (1.0, 0.5),
  "train/feature_rank": (9.0, 3.5),
  "train/prototypes_used": (0.9, 0.25),
  "train/center_norm": (0.0, 0.7),
}


def captions(tmp_path, metrics):
  """Title -> caption of the curves of a run of two records."""
  records = [
    {"step": 10 * (i + 1), **{name: ends[i] for name, ends in metrics.items()}}
    for i in range(2)
  ]
  run = load.load_run(workdirs.write_run(tmp_path, records=records))
  return {panel.title: panel.caption for panel in panels.panels(run)}


def test_the_health_of_self_distillation_is_drawn(tmp_path):
  found = captions(tmp_path, HEALTH)
  assert "entropy 2.5; KL to student 0.5" in found["Teacher"]
  assert "3.5" in found["Rank of features"]
  assert "25.00%" in found["Prototypes in use"]
  assert "0.7" in found["Centre"]


def test_the_learned_scale_and_bias_of_two_towers_are_drawn(tmp_path):
  metrics = {"train/scale": (10.0, 14.5), "train/bias": (-10.0, -9.25)}
  found = captions(tmp_path, metrics)
  assert found["Scale of the cosines"] == "Last recorded: 14.5."
  assert found["Bias"] == "Last recorded: −9.25."


def test_other_runs_have_no_such_curves(tmp_path):
  assert list(captions(tmp_path, {"train/loss": (2.0, 1.0)})) == ["Loss"]


def test_the_axis_of_a_share_says_what_it_is_of(tmp_path):
  evals = {
    "test": schema.ClassificationEval(type="classification"),
    "seg": schema.LinearSegmentationEval(type="linear_segmentation"),
  }
  declared = evaluator_declarations.declarations(schema.Config(evals=evals))
  metrics = {"eval/test/top1": 0.5, "linear_segmentation/seg/miou": 0.25}
  records = [{"step": step, **metrics} for step in (1, 2)]
  workdir = workdirs.write_run(tmp_path, records=records, evaluators=declared)
  found = {
    panel.title: panel.figure for panel in panels.panels(load.load_run(workdir))
  }
  assert ">accuracy<" in found["Accuracy"]
  segmentation = found["Mean IoU of linear segmentation"]
  assert ">mean IoU of linear segmentation<" in segmentation
