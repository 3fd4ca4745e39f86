"""Names of files and classes in messages and on pages."""

import re

# Python keeps the bytes of a name that are not UTF-8 as these; a JSON file can
# name them by halves of a character, "\ud83d".
_SURROGATES = re.compile("[\ud800-\udfff]")


def in_utf8(text: str) -> str:
  """The text with a replacement for each character that UTF-8 lacks."""
  return _SURROGATES.sub("\ufffd", text)


def on_one_line(text: str) -> str:
  """The text with control characters written out, so that none acts."""
  return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
