"""Formatting file and class names for messages and pages."""

import re

# Python represents bytes of a name that are not UTF-8 by these; a JSON file can
# contain them as halves of a character, "\ud83d".
_SURROGATES = re.compile("[\ud800-\udfff]")


def in_utf8(text: str) -> str:
  """Replaces each character that UTF-8 cannot encode."""
  return _SURROGATES.sub("\ufffd", text)


def on_one_line(text: str) -> str:
  """Escapes control characters in the text, so that none takes effect."""
  return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
