"""Names of files in messages."""


def on_one_line(text: str) -> str:
  """The text with control characters written out, so that none acts."""
  return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
