"""Mean and standard deviation of pixels, by name or by number."""

from collections.abc import Sequence

Statistics = tuple[tuple[float, ...], tuple[float, ...]]

# (mean, standard deviation) per channel of pixels in [0, 1].
NAMED: dict[str, Statistics] = {
  "minus_one_to_one": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
  "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
  # Of openai/CLIP.
  "clip": (
    (0.48145466, 0.4578275, 0.40821073),
    (0.26862954, 0.26130258, 0.27577711),
  ),
}


def parse(text: str) -> Statistics:
  """Parses a value of `model.normalize` to mean and standard deviation.

  Args:
    text: A key of `NAMED`, or 'MEAN,MEAN,MEAN/STD,STD,STD'.

  Raises:
    ValueError: The text is neither; the message has an example.
  """
  if text in NAMED:
    return NAMED[text]
  try:
    mean, deviation = (
      tuple(float(number) for number in part.split(","))
      for part in text.split("/")
    )
  except ValueError:
    mean = deviation = ()
  in_range = all(0 <= x <= 1 for x in mean) and all(
    0 < x <= 1 for x in deviation
  )
  if len(mean) != 3 or len(deviation) != 3 or not in_range:
    raise ValueError(
      f"{text!r} is neither {' nor '.join(map(repr, NAMED))} nor three means"
      " and three standard deviations of pixels in [0, 1], such as"
      " '0.5,0.5,0.5/0.5,0.5,0.5'"
    )
  return mean, deviation


def describe(mean: Sequence[float], deviation: Sequence[float]) -> str:
  """Returns the value of `model.normalize` that `parse` reads to these."""
  statistics = tuple(map(float, mean)), tuple(map(float, deviation))
  for name, named in NAMED.items():
    if named == statistics:
      return name
  text = "/".join(",".join(f"{x!r}" for x in part) for part in statistics)
  parse(text)
  return text
