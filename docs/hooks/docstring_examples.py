"""Shows the code below "Example:" in a docstring as code."""

import re
import textwrap
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^Example:\n((?:  .*\n?|\n)+)", re.MULTILINE)


class Examples(griffe.Extension):
  """Makes the examples of docstrings blocks of code."""

  def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
    if obj.docstring:
      obj.docstring.value = _EXAMPLE.sub(_as_code, obj.docstring.value)


def _as_code(match: re.Match) -> str:
  code = f"```python\n{textwrap.dedent(match[1]).strip()}\n```"
  return f"Examples:\n{textwrap.indent(code, '  ')}\n"
