"""The templates of our HTML pages."""

import jinja2


def environment() -> jinja2.Environment:
  """Reads `report/templates`; what is put into them is escaped."""
  return jinja2.Environment(
    loader=jinja2.PackageLoader("vit_jax.report"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
  )
