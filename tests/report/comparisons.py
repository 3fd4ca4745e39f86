"""What evaluators found of two checkpoints, without running any."""

from vit_jax.config import evaluator_declarations, schema
from vit_jax.report.subjects import Subject

_DATA = {"digits": schema.FewshotDataset(), "pets": schema.FewshotDataset()}
_EVALS = {
  "test": schema.ClassificationEval(type="classification", dataset="digits"),
  "few": schema.FewshotEval(
    type="fewshot", datasets=_DATA, shots=(1, 5), l2_sweep=(1.0, 1024.0)
  ),
  "near": schema.KnnEval(
    type="knn", datasets={"digits": schema.FewshotDataset()}, neighbors=(20, 5)
  ),
  "probe": schema.LinearProbeEval(
    type="linear_probe", datasets={"digits": schema.FewshotDataset()}
  ),
}
DECLARED = evaluator_declarations.declarations(schema.Config(evals=_EVALS))


def metrics(shift: float = 0.0) -> dict[str, float]:
  """All metrics of `DECLARED`, `shift` better than some."""
  found = {
    "eval/test/top1": 0.9 + shift,
    "eval/test/top5": 0.99,
    "eval/test/loss": 0.3 - shift,
    "eval/test/num_examples": 450.0,
    "knn/digits/k20": 0.7 + shift,
    "knn/digits/k5": 0.8 - shift,
    "linear_probe/digits/top1": 0.95 + shift,
    "linear_probe/digits/l2": 1e-3,
  }
  for dataset, base in (("digits", 0.5), ("pets", 0.3)):
    for shots in (1, 5):
      for how in ("", "_l2_swept"):
        key = f"fewshot/{dataset}/{shots}shot{how}"
        found[key] = base + shots / 25 + shift
        found[f"{key}_std"] = 0.02
  return found


def subject(path: str = "runs/a", **changes) -> Subject:
  """A checkpoint of a workdir."""
  arguments = dict(
    path=path,
    model="ViT-Ti/4",
    image_size=16,
    num_params=302890,
    metrics={"step": 1500, **metrics()},
  )
  return Subject(**(arguments | changes))


def pair() -> list[Subject]:
  """Two checkpoints, the second 5 points better at most things."""
  second = subject("runs/b.npz", metrics=metrics(0.05), num_params=5)
  return [subject(), second]
