"""Shows tables 1 to 9 of the ViT paper, what they cost, and our numbers.

  python -m vit_jax.tables
  python -m vit_jax.tables 5
  python -m vit_jax.tables 6 --json
  python -m vit_jax.tables 5 --runs=runs
  python -m vit_jax.tables --format=html --output=tables.html

Beside the paper's numbers stand the exaFLOPs that we compute from shapes, and
below the table the config that makes each row, for vit_jax.train, and each of
its fine-tunings, for vit_jax.sweep. Without a number text lists the tables; all
other formats have all of them.

--runs=DIR reads every workdir below DIR and fills in what its runs measured,
with the difference to the paper; seeds of one setting become mean ± standard
deviation. A fine-tuned network's pre-training is what the config.json of its
init_from says; of a file that has none, say it: --pretrained=B_16.npz=i21k.
What cannot be used, or would have to be guessed, is said below the table.

--json prints {"table", "title", "rows": [{"row", "paper": {COLUMN: VALUE},
"computed": {NAME: VALUE}, "measured": {COLUMN: VALUE} or null, "config":
CONFIG or null, ...}], ...}; without a number {"tables": [...]} of such.
"""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from vit_jax import command_line, records
from vit_jax.errors import UserError

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
  flags.DEFINE_multi_string(
    "pretrained",
    [],
    "FILE=DATA: what a file that runs started from was pre-trained on, i1k,"
    " i21k or jft.",
  )


def main(argv: Sequence[str]) -> int:
  options = flags.FLAGS
  number = _number(argv[1:])
  kind = _format(options.format, options.json, options.output)
  pretrained = _pretrained(options.pretrained)
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
  from vit_jax.report.tables import runs as workdirs

  if number is None and kind == "text":
    return _titles()
  numbers = list(TABLES) if number is None else [number]
  found, unread = [], []
  if runs is not None:
    found, unread = workdirs.find(runs, pretrained or {})
  documents = [
    document.build(TABLES[k], measuring.measure(TABLES[k], found, unread))
    for k in numbers
  ]
  if kind == "json":
    value: Any = {"tables": documents} if number is None else documents[0]
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
  sheets = [sheet.lay_out(one) for one in documents]
  if kind == "html":
    sections = [page.Section(one) for one in sheets]
    return page.render(sections, with_runs=runs is not None)
  return "\n".join(formats.FORMATS[kind](one) for one in sheets)


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
