"""A comparison of checkpoints as HTML and Markdown."""

from collections.abc import Callable, Sequence

from vit_jax.report import formatting, pages
from vit_jax.report.comparison import Comparison

_LEAD = "Results of the evaluators of one config, the same for all checkpoints."
_FOOTER = (
  "Made by vit_jax.evaluate; nothing in it was typed in. Where there are"
  " several checkpoints the best of a row is marked; ± is a standard deviation."
  " No significance is tested."
)


def html(comparison: Comparison) -> str:
  """Renders one self-contained page."""
  return (
    pages.environment()
    .get_template("comparison.html")
    .render(
      title=_title(comparison),
      lead=_LEAD,
      names=comparison.names,
      rows=list(zip(comparison.names, comparison.subjects, strict=True)),
      sections=comparison.sections,
      footer=_FOOTER,
    )
  )


def markdown(comparison: Comparison) -> str:
  """Renders headings and tables, without figures."""
  heads = ("name", "model", "path", "image, px", "parameters", "step")
  parts = [f"# {_title(comparison)}", "", *_table_head(heads, num_words=3)]
  for name, one in zip(comparison.names, comparison.subjects, strict=True):
    parts.append(
      _row(
        (
          name,
          one.model,
          one.path,
          str(one.image_size),
          formatting.count(one.num_params),
          formatting.count(one.metrics.get("step")),
        )
      )
    )
  for section in comparison.sections:
    parts += ["", f"## {section.title}", ""]
    for paragraph in section.protocol:
      parts += [_escaped(paragraph), ""]
    parts += _table_head(("measured", *comparison.names), num_words=1)
    for line in section.lines:
      cells = (
        f"**{cell}**" if is_best else cell
        for cell, is_best in zip(
          map(_escaped, line.cells), line.best, strict=True
        )
      )
      parts.append(f"| {_escaped(line.name)} | {' | '.join(cells)} |")
  return "\n".join([*parts, "", _FOOTER]) + "\n"


# File suffix -> function that renders it.
FORMATS: dict[str, Callable[[Comparison], str]] = {
  ".html": html,
  ".md": markdown,
}


def _title(comparison: Comparison) -> str:
  if len(comparison.names) == 1:
    return f"Evaluation of {comparison.names[0]}"
  return f"{len(comparison.names)} checkpoints compared"


def _table_head(heads: Sequence[str], *, num_words: int) -> list[str]:
  """Returns a table's first two lines; columns of words are left-aligned."""
  rule = "---|" * num_words + "---:|" * (len(heads) - num_words)
  return [_row(heads), f"|{rule}"]


def _row(cells: Sequence[str]) -> str:
  return f"| {' | '.join(map(_escaped, cells))} |"


def _escaped(text: str) -> str:
  """Escapes file names, so that they are not read as markup."""
  for sign in "\\|<>*_`[]":
    text = text.replace(sign, f"\\{sign}")
  return text
