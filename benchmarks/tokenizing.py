"""Captions per second of our tokenizers and, if installed, of transformers'.

  python benchmarks/tokenizing.py TOKENIZER [TOKENIZER ...] --captions=FILE

TOKENIZER is a path that vit_jax.load_tokenizer reads; FILE holds a caption in
each line, which are repeated up to --number. For a directory of Hugging Face,
transformers' tokenizer of the same directory takes turns with ours; both give
rows of full length.
"""

import argparse
import importlib.util
import itertools
import pathlib
import statistics
import time
from collections.abc import Callable

import vit_jax


def captions_per_second(call: Callable, texts: list[str], batch: int) -> float:
  """Returns the rate of one pass over the texts in batches."""
  start = time.perf_counter()
  for first in range(0, len(texts), batch):
    call(texts[first : first + batch])
  return len(texts) / (time.perf_counter() - start)


def of_transformers(path: str, length: int) -> Callable | None:
  """Returns transformers' tokenizer of a directory, if both are there."""
  if not importlib.util.find_spec("transformers"):
    return None
  if not (pathlib.Path(path) / "tokenizer_config.json").exists():
    return None
  import transformers

  tokenizer = transformers.AutoTokenizer.from_pretrained(path)
  return lambda texts: tokenizer(
    texts,
    padding="max_length",
    max_length=length,
    truncation=True,
    return_tensors="np",
  )


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("tokenizers", nargs="+", metavar="TOKENIZER")
  parser.add_argument("--captions", required=True)
  parser.add_argument("--number", type=int, default=40_000)
  parser.add_argument("--batch", type=int, default=4096)
  parser.add_argument("--rounds", type=int, default=5)
  options = parser.parse_args()
  lines = pathlib.Path(options.captions).read_text("utf-8").splitlines()
  texts = list(itertools.islice(itertools.cycle(lines), options.number))
  for path in options.tokenizers:
    ours = vit_jax.load_tokenizer(path)
    theirs = of_transformers(path, ours.length)
    calls = {"vit_jax": ours, **({"transformers": theirs} if theirs else {})}
    rates = {name: [] for name in calls}
    for _ in range(options.rounds):
      for name, call in calls.items():
        rates[name].append(captions_per_second(call, texts, options.batch))
    shown = ", ".join(
      f"{name} {statistics.median(found):,.0f}" for name, found in rates.items()
    )
    print(f"{path}: captions/s {shown}")


if __name__ == "__main__":
  main()
