"""Sheets as text, Markdown and LaTeX."""

from collections.abc import Callable, Sequence

from vit_jax import text_tables
from vit_jax.report.tables.sheet import Sheet

HOW = (
  "Pre-train by `python -m vit_jax.train --config=CONFIG --workdir=RUN`,"
  " fine-tune by `python -m vit_jax.sweep --config=CONFIG"
  " --config.init_from=RUN --workdir=RUN_TUNED`, and on all of VTAB by"
  " `vit_jax.vtab` instead of `vit_jax.sweep`."
)
_LATEX = str.maketrans(
  {
    "&": r"\&",
    "%": r"\%",
    "_": r"\_",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
  }
)


def text(sheet: Sheet) -> str:
  """Formats for a terminal: aligned columns, numbers to the right."""
  rows = [sheet.heads, *((line.name, *line.cells) for line in sheet.lines)]
  numbers = [k for k, is_word in enumerate(sheet.is_word) if not is_word]
  body = text_tables.aligned(rows, right=numbers)
  parts = [sheet.heading, "", *body]
  if sheet.configs:
    width = max(len(label) for label, _ in sheet.configs)
    parts += ["", "Configs. " + HOW.replace("`", "")]
    parts += [f"  {label:{width}}  {c}" for label, c in sheet.configs]
  if sheet.notes:
    parts += ["", *(f"* {note}" for note in sheet.notes)]
  return "\n".join(parts) + "\n"


def markdown(sheet: Sheet) -> str:
  """Formats for GitHub: a heading, the table, its configs and notes."""

  def line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(c.replace("|", r"\|") for c in cells) + " |"

  parts = [f"## {sheet.heading}", "", line(sheet.heads)]
  parts.append("|" + "".join("---|" if w else "---:|" for w in sheet.is_word))
  for row in sheet.lines:
    is_measured = row.kind == "measured"
    parts.append(
      line([f"*{row.name}*" if is_measured else row.name, *row.cells])
    )
  if sheet.configs:
    parts += ["", HOW, "", line(["what", "config"]), "|---|---|"]
    parts += [line([label, f"`{c}`"]) for label, c in sheet.configs]
  if sheet.notes:
    parts += ["", *(f"- {note}" for note in sheet.notes)]
  return "\n".join(parts) + "\n"


def latex(sheet: Sheet) -> str:
  """Formats a `table` with booktabs rules; configs are in a comment."""

  def line(cells: Sequence[str]) -> str:
    return " & ".join(cell.translate(_LATEX) for cell in cells) + r" \\"

  parts = [
    *(f"% {label}: {config}" for label, config in sheet.configs),
    r"\begin{table}",
    r"\centering",
    rf"\caption{{{sheet.title.translate(_LATEX)}}}",
    *([rf"\label{{tab:vit-{sheet.number}}}"] if sheet.number else []),
    rf"\begin{{tabular}}{{{''.join('rl'[w] for w in sheet.is_word)}}}",
    r"\toprule",
    line(sheet.heads),
    r"\midrule",
    *(line([row.name, *row.cells]) for row in sheet.lines),
    r"\bottomrule",
    r"\end{tabular}",
    *([r"\par\smallskip\footnotesize"] if sheet.notes else []),
    *(note.translate(_LATEX) for note in sheet.notes),
    r"\end{table}",
  ]
  return "\n".join(parts) + "\n"


FORMATS: dict[str, Callable[[Sheet], str]] = {
  "text": text,
  "markdown": markdown,
  "latex": latex,
}
