"""Shows tables 1 to 9 of the ViT paper, what they cost, and our numbers.

With `families` instead of a number, it shows the published results of DeiT,
Swin, ConvNeXt and the other families, with the parameters and FLOPs that we
count and the config of each.

  python -m vit_jax.tables
  python -m vit_jax.tables 5
  python -m vit_jax.tables 6 --json
  python -m vit_jax.tables families --format=markdown
  python -m vit_jax.tables 5 --runs=runs
  python -m vit_jax.tables --format=html --output=tables.html
  python -m vit_jax.tables --figure=5 --runs=runs --output=figure5.svg
  python -m vit_jax.tables --costs --accelerator=h100 --format=markdown

The paper's numbers are shown with the exaFLOPs that we compute from shapes, and
below the table with the config of each row, for vit_jax.train, and of each of
its fine-tuning runs, for vit_jax.sweep. Without a number, the text format lists
the tables; with --runs, and in all other formats, all tables are printed.

--runs=DIR reads every workdir below DIR and fills in the measurements of its
runs, with the difference from the paper; seeds of one setting become mean ±
standard deviation. The pre-training of a fine-tuned network is read from the
config.json of its init_from; for a file that has none, name it:
--pretrained=B_16.npz=i21k. Runs that cannot be used, or whose settings would
have to be guessed, are listed below the table.

--figure=3 plots accuracy against the number of pre-training images, --figure=5
against pre-training cost, with runs if there are any. --figure=4 is drawn from
runs only: a metric of those trained from scratch, against the number of images
that they were trained on.

--costs prints the cost of the runs behind the tables, from train steps compiled
ahead of time: memory, FLOPs and time of each step, hours and chip-days of each
run, and the total of each table; --accelerator selects the chip, for the table
of families too.

--json prints {"table", "title", "rows": [{"row", "paper": {COLUMN: VALUE},
"computed": {NAME: VALUE}, "measured": {COLUMN: VALUE} or null, "config":
CONFIG or null, ...}], ...}; without a number, {"tables": [...]} of these.
"""

import pathlib
import sys
from collections.abc import Sequence

from absl import flags

from vit_jax import command_line, records
from vit_jax.errors import UserError

_FAMILIES = "families"
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
    "Output format; by default that of the suffix of --output, else text.",
  )
  flags.DEFINE_bool("json", False, "Same as --format=json.")
  flags.DEFINE_string("output", None, "File to write instead of stdout.")
  flags.DEFINE_string(
    "runs", None, "Directory with workdirs to read measurements from."
  )
  flags.DEFINE_bool("costs", False, "Print the cost of the tables' runs.")
  flags.DEFINE_enum(
    "accelerator",
    "v5e",
    ("v5e", "h100"),
    "Chip for the days of --costs and families: TPU v5e or NVIDIA H100.",
  )
  flags.DEFINE_integer("figure", None, "Figure 3, 4 or 5 instead of a table.")
  flags.DEFINE_string(
    "metric",
    "fewshot/imagenet/5shot",
    "Metric of figure 4: a fraction in metrics.jsonl.",
  )
  flags.DEFINE_multi_string(
    "pretrained",
    [],
    "FILE=DATA: the pre-training data, i1k, i21k or jft, of a file that runs"
    " started from.",
  )


def main(argv: Sequence[str]) -> int:
  from vit_jax.report.tables import output

  options = flags.FLAGS
  command_line.check_writable("output", options.output)
  pretrained = _pretrained(options.pretrained)
  if pretrained and not options.runs:
    raise UserError(
      "--pretrained says from which data the runs of --runs started; give"
      " --runs with it."
    )
  if options["metric"].present and options.figure != 4:
    raise UserError(
      f"--metric={options.metric} is of figure 4; give --figure=4 with it."
    )
  if argv[1:] == [_FAMILIES]:
    kind = _families_format(options)
    text = output.render_families(kind, options.accelerator)
    return _print(text, options)
  if options["accelerator"].present and not options.costs:
    raise UserError(
      f"--accelerator={options.accelerator} says on what runs are costed; give"
      " --costs or the table of families with it."
    )
  number = _number(argv[1:])
  if options.costs:
    if (number, options.figure, options.runs) != (None, None, None):
      raise UserError(
        "--costs cannot be combined with the number of a table, --figure or"
        " --runs; give it alone."
      )
    text = output.render_costs(
      _format(options.format, options.json, options.output),
      options.accelerator,
    )
  elif options.figure is not None:
    text, remarks = output.draw(
      _figure(options.figure, number),
      _picture(options.format, options.json, options.output),
      runs=options.runs,
      pretrained=pretrained,
      metric=options.metric,
    )
    for remark in remarks:
      print(remark, file=sys.stderr)
  else:
    kind = _format(options.format, options.json, options.output)
    text = output.render(number, kind, runs=options.runs, pretrained=pretrained)
  return _print(text, options)


def _print(text: str, options: flags.FlagValues) -> int:
  if options.output:
    command_line.writing(records.write_text, options.output, text)
  else:
    print(text, end="")
  return 0


def _families_format(options: flags.FlagValues) -> str:
  others = (options.figure, options.runs, options.costs or None)
  if others != (None, None, None):
    raise UserError(
      "The table of families cannot be combined with --costs, --figure or"
      " --runs; ask for it alone."
    )
  return _format(options.format, options.json, options.output)


def _number(words: Sequence[str]) -> int | None:
  from vit_jax.paper.results import TABLES

  if not words:
    return None
  if len(words) > 1 or words[0] not in map(str, TABLES):
    raise UserError(
      f"There is no table {' '.join(words)!r}: give one number from"
      f" {min(TABLES)} to {max(TABLES)}, '{_FAMILIES}', or none for the list."
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
      " is given without the number of a table."
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
