"""SVG elements as escaped markup."""

import dataclasses

import markupsafe

Markup = markupsafe.Markup
Number = int | float


@dataclasses.dataclass(frozen=True)
class Figure:
  """A figure with the caption below it."""

  svg: Markup
  caption: str


def element(name: str, *children: object, **attributes: object) -> Markup:
  """`element("text", "a < b", x=3, class_="tick")`; everything is escaped.

  Underscores in attribute names become hyphens, and a trailing one is dropped;
  attributes that are None are left out; floats have two decimals.
  """
  head = "".join(
    f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
    for key, value in attributes.items()
    if value is not None
  )
  body = "".join(str(markupsafe.escape(child)) for child in children)
  return Markup(f"<{name}{head}>{body}</{name}>")


def text(words: str, x: Number, y: Number, class_: str | None = None) -> Markup:
  """Builds text with its baseline at (x, y)."""
  return element("text", words, x=x, y=y, class_=class_)


def line(x: tuple[float, float], y: tuple[float, float], class_: str) -> Markup:
  """Builds a straight line from (x[0], y[0]) to (x[1], y[1])."""
  return element("line", x1=x[0], x2=x[1], y1=y[0], y2=y[1], class_=class_)


def _attribute(value: object) -> str:
  if isinstance(value, float):
    return f"{value:.2f}".rstrip("0").rstrip(".")
  return str(markupsafe.escape(value))


def figure(
  *children: object, width: float, height: float, label: str, **attributes
) -> Markup:
  """Builds a figure's root, scaling with the page, with a text alternative."""
  return element(
    "svg",
    *children,
    viewBox=f"0 0 {width:g} {height:g}",
    role="img",
    aria_label=label,
    **attributes,
  )


def text_width(text: str, size: float) -> float:
  """Estimates the width in pixels of sans-serif text, for layout only."""
  narrow = sum(c in "iljtfI.,:;'|!()[] " for c in text)
  wide = sum(c in "mwMW%@" for c in text)
  return size * (0.56 * len(text) - 0.24 * narrow + 0.28 * wide)


def shorten(text: str, limit: int) -> str:
  """Cuts `text` to `limit` characters, with an ellipsis."""
  return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
