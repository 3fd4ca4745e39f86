"""The template environment that HTML pages share."""

import jinja2
import markupsafe


def environment() -> jinja2.Environment:
  """Reads `report/templates`; what is put into them is escaped."""
  return jinja2.Environment(
    loader=jinja2.PackageLoader("vit_jax.report"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
  )


def breakable(text: str) -> markupsafe.Markup:
  """Lets a long string of ops, or a path, break after its separators."""
  escaped = markupsafe.escape(text)
  for separator in "|/_":
    escaped = escaped.replace(separator, separator + markupsafe.Markup("<wbr>"))
  return escaped
