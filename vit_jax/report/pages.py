"""The template environment shared by HTML pages."""

import jinja2
import markupsafe

from vit_jax.report import formatting


def environment() -> jinja2.Environment:
  """Loads `report/templates`, with autoescaping."""
  environment = jinja2.Environment(
    loader=jinja2.PackageLoader("vit_jax.report"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
  )
  environment.filters |= {
    "breakable": _breakable,
    "count": formatting.count,
    "quantity": formatting.quantity,
    "percent": formatting.percent,
    "seconds": formatting.seconds,
  }
  return environment


def _breakable(text: str) -> markupsafe.Markup:
  """Lets a long op string or path break after its separators."""
  escaped = markupsafe.escape(text)
  for separator in "|/_":
    escaped = escaped.replace(separator, separator + markupsafe.Markup("<wbr>"))
  return escaped
