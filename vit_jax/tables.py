"""Shows tables 1 to 9 of the ViT paper, what they cost, and our numbers.

  python -m vit_jax.tables
  python -m vit_jax.tables 5
  python -m vit_jax.tables 6 --json
  python -m vit_jax.tables 5 --runs=runs
  python -m vit_jax.tables --format=html --output=tables.html
  python -m vit_jax.tables --figure=5 --runs=runs --output=figure5.svg

Beside the paper's numbers stand the exaFLOPs that we compute from shapes, and
below the table the config that makes each row, for vit_jax.train, and each of
its fine-tunings, for vit_jax.sweep. Without a number text lists the tables; all
other formats have all of them.

--runs=DIR reads every workdir below DIR and fills in what its runs measured,
with the difference to the paper; seeds of one setting become mean ± standard
deviation. A fine-tuned network's pre-training is what the config.json of its
init_from says; of a file that has none, say it: --pretrained=B_16.npz=i21k.
What cannot be used, or would have to be guessed, is said below the table.

--figure=3 is accuracy against images of pre-training, --figure=5 against its
cost, with runs where there are any. --figure=4 is drawn from runs alone: a
metric of those that started from nothing, by the images they were trained on.

--json prints {"table", "title", "rows": [{"row", "paper": {COLUMN: VALUE},
"computed": {NAME: VALUE}, "measured": {COLUMN: VALUE} or null, "config":
CONFIG or null, ...}], ...}; without a number {"tables": [...]} of such.
"""

import json
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from vit_jax import command_line, records
from vit_jax.errors import UserError

_FIGURES = (3, 4, 5)
_FORMATS = ("text", "markdown", "latex", "html", "json")
_ENDINGS = {
  ".md": "markdown",
  ".tex": "latex",
  ".html": "html",
  ".json": "json",
  ".txt": "text",
}


def define_flags() -> None:
  flags.DEFINE_enum(
    "format",
    None,
    _FORMATS,
    "What is printed; without it, what --output ends in, else text.",
  )
  flags.DEFINE_bool("json", False, "The same as --format=json.")
  flags.DEFINE_string("output", None, "File to write in place of stdout.")
  flags.DEFINE_string("runs", None, "Directory with workdirs to measure by.")
  flags.DEFINE_integer("figure", None, "Figure 3, 4 or 5 in place of a table.")
  flags.DEFINE_string(
    "metric",
    "fewshot/imagenet/5shot",
    "What figure 4 shows of runs: a fraction of metrics.jsonl.",
  )
  flags.DEFINE_multi_string(
    "pretrained",
    [],
    "FILE=DATA: what a file that runs started from was pre-trained on, i1k,"
    " i21k or jft.",
  )


def main(argv: Sequence[str]) -> int:
  options = flags.FLAGS
  number = _number(argv[1:])
  pretrained = _pretrained(options.pretrained)
  if options.figure is not None:
    text = draw(
      _figure(options.figure, number),
      _picture(options.format, options.json, options.output),
      runs=options.runs,
      pretrained=pretrained,
      metric=options.metric,
    )
  else:
    kind = _format(options.format, options.json, options.output)
    text = render(number, kind, runs=options.runs, pretrained=pretrained)
  if options.output:
    command_line.writing(records.write_text, options.output, text)
  else:
    print(text, end="")
  return 0


def render(
  number: int | None,
  kind: str,
  *,
  runs: str | None = None,
  pretrained: Mapping[str, str] | None = None,
) -> str:
  """Tables in one of the formats.

  Args:
    number: of the table; None: all, or in 'text' their titles.
    kind: a format.
    runs: directory with workdirs; None: nothing is measured.
    pretrained: file that runs started from -> 'i1k', 'i21k' or 'jft'.

  Raises:
    UserError: there is no run in `runs`.
  """
  from vit_jax.paper.results import TABLES
  from vit_jax.report.tables import document, formats, measuring, page, sheet

  if number is None and kind == "text":
    return _titles()
  numbers = list(TABLES) if number is None else [number]
  found, unread = _found(runs, pretrained)
  measured = {k: measuring.measure(TABLES[k], found, unread) for k in numbers}
  documents = [document.build(TABLES[k], measured[k]) for k in numbers]
  if kind == "json":
    value: Any = {"tables": documents} if number is None else documents[0]
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
  sheets = [sheet.lay_out(one) for one in documents]
  if kind == "html":
    sections = [
      page.of_table(one, _figures_of(k, measured[k], found))
      for k, one in zip(numbers, sheets, strict=True)
    ]
    return page.render(sections, with_runs=runs is not None)
  return "\n".join(formats.FORMATS[kind](one) for one in sheets)


def draw(
  figure: int,
  kind: str,
  *,
  runs: str | None,
  pretrained: Mapping[str, str],
  metric: str,
) -> str:
  """Figure 3, 4 or 5 as 'svg' or 'html'.

  Args:
    figure: the paper's number.
    kind: a format.
    runs: directory with workdirs; None: the paper's numbers alone.
    pretrained: file that runs started from -> 'i1k', 'i21k' or 'jft'.
    metric: that figure 4 shows.

  Raises:
    UserError: there is no run to draw figure 4 of.
  """
  from vit_jax.paper.results import TABLES
  from vit_jax.report.tables import measuring, page, scatters

  found, remarks = _found(runs, pretrained)
  if figure == 4:
    figures, left_out = scatters.against_examples(found, metric)
    remarks += left_out
    if not figures:
      raise UserError(
        "\n".join(
          [
            "Figure 4 is drawn from runs alone, and none that started from"
            f" nothing has finished with {metric}: give --runs=DIR, or another"
            " --metric.",
            *left_out,
          ]
        )
      )
  else:
    number, make = scatters.OF_TABLES[figure]
    measured = measuring.measure(TABLES[number], found, remarks)
    figures, remarks = make(measured), list(measured.remarks)
  if kind == "html":
    title = f"Figure {figure} of the ViT paper"
    section = page.Section(title, None, tuple(figures), tuple(remarks))
    return page.render([section], with_runs=runs is not None)
  for remark in remarks:
    print(remark, file=sys.stderr)
  return page.standalone(figures)


def _found(runs: str | None, pretrained: Mapping[str, str] | None):
  """Runs below a directory, and sentences on those that cannot be read."""
  from vit_jax.report.tables import runs as workdirs

  return ([], []) if runs is None else workdirs.find(runs, pretrained or {})


def _figures_of(number: int, measured, found) -> list:
  """Figures that stand below a table on its page."""
  from vit_jax.report.tables import scatters

  figures = []
  for table, make in scatters.OF_TABLES.values():
    if table == number:
      figures += make(measured)
  if number == 5:
    figures += scatters.against_examples(found)[0]
  return figures


def _titles() -> str:
  from vit_jax.paper.results import TABLES

  lines = [f"{number}  {table.title}" for number, table in TABLES.items()]
  return "\n".join([*lines, "", "python -m vit_jax.tables N shows one.", ""])


def _number(words: Sequence[str]) -> int | None:
  from vit_jax.paper.results import TABLES

  if not words:
    return None
  if len(words) > 1 or words[0] not in map(str, TABLES):
    raise UserError(
      f"There is no table {' '.join(words)!r}: give one number from"
      f" {min(TABLES)} to {max(TABLES)}, or none for the list."
    )
  return int(words[0])


def _pretrained(words: Sequence[str]) -> dict[str, str]:
  from vit_jax.paper.results import PRETRAINING

  known = ", ".join(PRETRAINING)
  found = {}
  for word in words:
    path, _, data = word.rpartition("=")
    if not path or data not in PRETRAINING:
      raise UserError(
        f"--pretrained={word} is not FILE=DATA with DATA one of {known}, as in"
        " --pretrained=B_16.npz=i21k."
      )
    found[path] = data
  return found


def _figure(figure: int, number: int | None) -> int:
  if figure not in _FIGURES or number is not None:
    raise UserError(
      f"--figure={figure} must be one of {', '.join(map(str, _FIGURES))}, and"
      " stands alone, without the number of a table."
    )
  return figure


def _picture(kind: str | None, as_json: bool, output: str | None) -> str:
  ending = pathlib.PurePath(output).suffix.lower() if output else ".svg"
  kind = "json" if as_json else kind or ending.removeprefix(".")
  if kind not in ("svg", "html"):
    raise UserError(
      f"A figure is SVG or HTML, not {kind or 'a file without ending'}: give"
      " --output=FILE.svg or FILE.html."
    )
  return kind


def _format(kind: str | None, as_json: bool, output: str | None) -> str:
  if as_json and kind not in (None, "json"):
    raise UserError(f"--json and --format={kind} are two formats; give one.")
  if as_json:
    return "json"
  if kind is None and output:
    ending = pathlib.PurePath(output).suffix.lower()
    if ending not in _ENDINGS:
      raise UserError(
        f"--output={output} does not say in which format: end it in one of"
        f" {', '.join(_ENDINGS)}, or give --format."
      )
    return _ENDINGS[ending]
  return kind or "text"


if __name__ == "__main__":
  define_flags()
  command_line.run(main)
