"""Top answers of transformers for an exported directory, compared with predict.

  python benchmarks/same_labels.py --checkpoint=RUN --directory=EXPORTED PATH...

PATHs are images, folders and patterns, as for `vit_jax.predict`, which looks at
RUN; `transformers.pipeline("image-classification")` looks at EXPORTED, which
`vit_jax.convert RUN EXPORTED` has written. One line of JSON tells for how many
images the first answers are the same, for how many others the run's two best
probabilities are within 0.02 of each other, and the largest difference of a
probability of the run's first answer. Needs torch, transformers and timm.
"""

import argparse
import json
import subprocess
import sys

_NEAR = 0.02


def ours(checkpoint: str, paths: list[str]) -> dict[str, dict[str, float]]:
  """Names and probabilities of all classes by image, the best first."""
  command = [sys.executable, "-m", "vit_jax.predict", "--json", "--top_k=1000"]
  command += [f"--checkpoint={checkpoint}", *paths]
  found = subprocess.run(command, check=True, capture_output=True, text=True)
  return {
    image["path"]: {
      str(one["label"] if one["name"] is None else one["name"]): one[
        "probability"
      ]
      for one in image["predictions"]
    }
    for image in json.loads(found.stdout)["images"]
  }


def theirs(directory: str, paths: list[str]) -> list[dict[str, float]]:
  """The same of transformers, in the order of the images."""
  import transformers

  pipeline = transformers.pipeline("image-classification", model=directory)
  found = pipeline(paths, top_k=1000)
  return [
    {one["label"].removeprefix("LABEL_"): one["score"] for one in image}
    for image in found
  ]


def compare(
  wanted: list[dict[str, float]], found: list[dict[str, float]]
) -> dict[str, float]:
  """Counts of equal and of nearly undecided first answers."""
  same = near = 0
  difference = 0.0
  for one, other in zip(wanted, found, strict=True):
    best, *rest = sorted(one, key=one.get, reverse=True)
    difference = max(difference, abs(one[best] - other[best]))
    if max(other, key=other.get) == best:
      same += 1
    elif rest and one[best] - one[rest[0]] < _NEAR:
      near += 1
  return {
    "images": len(wanted),
    "same": same,
    "undecided": near,
    "other": len(wanted) - same - near,
    "largest difference": round(difference, 6),
  }


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument("--checkpoint", required=True)
  parser.add_argument("--directory", required=True)
  parser.add_argument("paths", nargs="+")
  flags = parser.parse_args()
  wanted = ours(flags.checkpoint, flags.paths)
  found = theirs(flags.directory, list(wanted))
  print(json.dumps(compare(list(wanted.values()), found)))


if __name__ == "__main__":
  main()
