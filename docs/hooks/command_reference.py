"""A page of every command's flags, made from its help."""

import importlib
from collections.abc import Iterator
from typing import Any

import markdown_text
from absl import flags
from mkdocs.structure.files import File

from vit_jax.__main__ import COMMANDS

PATH = "reference/flags.md"
_OPENING = """\
# Flags of commands

What `--help` of each command says. `vit-jax train` is
`python -m vit_jax.train`; [Commands](../commands.md) shows what they are for.
Commands that take `--config` take overrides of [its keys](config.md) too, as
`--config.KEY=VALUE`.
"""


def on_files(files: Any, config: Any) -> Any:
  """Adds the page to the site."""
  files.append(File.generated(config, PATH, content=page()))
  return files


def page() -> str:
  """Markdown of the page."""
  text = [_OPENING]
  for name in COMMANDS:
    module = importlib.import_module(f"vit_jax.{name}")
    text += [f"## {name}", _as_markdown(module.__doc__), _table(module)]
  return "\n\n".join(text) + "\n"


def _as_markdown(help_text: str) -> str:
  """A help text, whose indented lines are shown as they are."""
  paragraphs, lines = [], help_text.strip().splitlines()
  for line in lines:
    indented = line.startswith("  ")
    if not line.strip():
      paragraphs.append((None, []))
    elif paragraphs and paragraphs[-1][0] == indented:
      paragraphs[-1][1].append(line)
    else:
      paragraphs.append((indented, [line]))
  return "\n\n".join(_block(*one) for one in _joined(paragraphs))


def _joined(paragraphs: list) -> Iterator[tuple[bool, list[str]]]:
  """Paragraphs, indented ones that follow one another as one block."""
  block: list[str] = []
  for indented, lines in paragraphs:
    if indented:
      block += ["", *lines] if block else lines
    elif lines:
      if block:
        yield True, block
      block = []
      yield False, lines
  if block:
    yield True, block


def _block(indented: bool, lines: list[str]) -> str:
  if not indented:
    return markdown_text.escaped(" ".join(lines))
  kind = "bash" if any("python -m" in line for line in lines) else "text"
  return "\n".join([f"```{kind}", *(line[2:] for line in lines), "```"])


def _table(module: Any) -> str:
  """The flags that a command's `define_flags` defines."""
  known = set(flags.FLAGS)
  module.define_flags()
  own = [flags.FLAGS[name] for name in flags.FLAGS if name not in known]
  for flag in own:
    delattr(flags.FLAGS, flag.name)
  return markdown_text.table(
    ("flag and values", "default", "meaning"),
    (
      (
        f"`--{flag.name}`{{ #{module.__name__}.{flag.name} }}<br>{_kind(flag)}",
        _default(flag),
        markdown_text.escaped(_help(flag)),
      )
      for flag in sorted(own, key=lambda flag: flag.name)
    ),
  )


def _kind(flag: flags.Flag) -> str:
  if isinstance(flag, flags.EnumFlag):
    return ", ".join(map(markdown_text.code, flag.parser.enum_values))
  if flag.boolean:
    return f"`--no{flag.name}`: False"
  if "list" in flag.flag_type():
    return "values separated by commas"
  kind = {"int": "integer", "float": "number"}.get(flag.flag_type(), "text")
  return (
    f"{kind}; may be repeated" if isinstance(flag, flags.MultiFlag) else kind
  )


def _default(flag: flags.Flag) -> str:
  if flag.default is None:
    return ""
  value = flag.default
  return markdown_text.code(
    ",".join(map(str, value)) if isinstance(value, list) else repr(value)
  )


def _help(flag: flags.Flag) -> str:
  """The text of the flag's definition, without what absl adds."""
  text = " ".join(flag.help.split())
  text = text.removesuffix("; repeat this option to specify a list of values")
  return text.rpartition(">: ")[2] if text.startswith("<") else text
