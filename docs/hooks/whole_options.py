"""Options of commands stay whole where a long line is wrapped.

A browser may break a line after any hyphen, so that `--` would stand at the end
of one line and the option's name at the start of the next.
"""

import re
from typing import Any

_BLOCK = re.compile(
  r'(?<=<div class="language-bash highlight">).*?(?=</div>)', re.DOTALL
)
# From a hyphen to the next space, past what the highlighting marks inside.
_MARKED = r'<span class="(?!w\b)\w+">[^<\s]*</span>'
_OPTION = re.compile(rf"(?<=</span>)(-[^<\s\\]*(?:{_MARKED}[^<\s\\]*)*)")


def on_page_content(html: str, **unused: Any) -> str:
  """Wraps each option of the page's commands."""
  return _BLOCK.sub(lambda block: whole_options(block[0]), html)


def whole_options(block: str) -> str:
  """A block of highlighted shell code whose options are elements of their own.

  Args:
    block: HTML of Pygments.
  """
  return _OPTION.sub(r'<span class="whole">\1</span>', block)
