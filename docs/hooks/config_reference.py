"""Pages of every key of a config, made from the schema when the site is built.

A key's row has its path, its type and allowed values, its default and its
meaning, as `vit_jax.config.schema` and the sections of the registered families,
objectives and evaluators declare them.
"""

import re
import typing
from collections.abc import Iterator
from typing import Annotated, Any

import hint_words
import markdown_text
import pydantic
from mkdocs.structure.files import File

from vit_jax.config import named_sections, schema
from vit_jax.config.schema import Section
from vit_jax.optim.transforms import OPTIMIZERS

_FOLDER = "reference"
# Keys whose names are those of a registry, and the text that lists them.
_REGISTERED = {
  "model.name": named_sections.sections("model"),
  "objective.name": named_sections.sections("objective"),
  "evals.NAME.type": named_sections.sections("evals"),
  "optimizer.name": OPTIMIZERS,
}
_ANYWHERE = """\
Every key of an experiment, made from the schema that checks it
([config/schema.py](../../vit_jax/config/schema.py)). A key is set in the
experiment's file, `config.train.batch_size = 256`, or on the command line,
`--config.train.batch_size=256`; one that is misspelt is answered with the
nearest that exists. [The settings you will want first](../configs.md#settings)
are on a page of their own.

| page | keys |
|---|---|
| this one | the run: its data, optimizer, schedule, devices, checkpoints |
| [model](config_model.md) | `model`, by family |
| [objective](config_objective.md) | `objective`, by objective |
| [evals](config_evals.md) | `evals`, by type of evaluator |

## Values

### Durations

A number of steps, or text: `1000`, `'1000 steps'`, `'90 epochs'`,
`'1.5 epochs'`, `'10M examples'`, or `'10%'` of the run.

### Scalars

A number, or text that names the shape of its change over the run, from the
first step to the last unless `over` says otherwise: `0.05`,
`'cosine(0.04, 0.4)'`, `"linear(0.04, 0.07, over='29 epochs', per='epoch')"`,
`"constant(0.07, warmup='30 epochs', warmup_from=0.04)"`.

### Sources

A tag says where a key or its default comes from. {tags}
"""


def on_files(files: Any, config: Any) -> Any:
  """Adds the pages to the site."""
  for path, text in pages().items():
    files.append(File.generated(config, path, content=text))
  return files


def pages() -> dict[str, str]:
  """Markdown of each page by its path in the site."""
  return {
    f"{_FOLDER}/config.md": _main_page(),
    f"{_FOLDER}/config_model.md": _named_page(
      "model",
      schema.Model,
      "Keys of the network. Those of all families come first; `model.name`"
      " selects the family, whose own keys come with it.",
    ),
    f"{_FOLDER}/config_objective.md": _named_page(
      "objective",
      schema.Objective,
      "Keys of what is learned; `objective.name` selects it.",
    ),
    f"{_FOLDER}/config_evals.md": _named_page(
      "evals",
      schema.Eval,
      "`config.evals` has an entry for each evaluator, under a name of your"
      " choice, here `NAME`; its `type` selects its keys."
      " [Evaluation](../evaluation.md) tells how each one measures.",
    ),
  }


def _main_page() -> str:
  tags = re.search(r"Tags in the descriptions: (.*)", schema.__doc__, re.DOTALL)
  text = [
    "# Config",
    _ANYWHERE.format(
      tags=markdown_text.escaped(" ".join(tags.group(1).split()))
    ),
    "## The run",
    _table(_rows(schema.Config, "", "", leave_out=_sections(schema.Config))),
  ]
  for name, section in _sections(schema.Config).items():
    if name not in named_sections.NAMED:
      text += _section(name, section, link=name, title=name)
  return "\n\n".join(text) + "\n"


def _named_page(group: str, base: type[Section], opening: str) -> str:
  """The keys of `config.<group>`: those of all names, then those of each."""
  path = "evals.NAME" if group == "evals" else group
  text = [
    f"# Config: {group}",
    opening,
    "## Always",
    _table(_rows(base, path, path)),
  ]
  for name, section in named_sections.sections(group).items():
    text += _section(
      path, section, link=f"{path}.{name}", title=name, base=base
    )
  return "\n\n".join(text) + "\n"


def _section(
  path: str,
  section: type[Section],
  *,
  link: str,
  title: str,
  level: int = 2,
  base: type[Section] | None = None,
) -> Iterator[str]:
  """Heading, description and table of a section, then those within it.

  Args:
    path: Path of its keys, without "config.".
    section: Class of the section.
    link: Path in the links to its rows, as sections of several names have keys
      of one path.
    title: Its heading.
    level: Level of its heading.
    base: Class whose keys are shown elsewhere.
  """
  yield f"{'#' * level} {title}"
  yield markdown_text.escaped(_description(section))
  inner = _sections(section)
  leave_out = {*inner, *_inherited(section, base)}
  rows = list(_rows(section, path, link, leave_out=leave_out))
  yield _table(rows) if rows or inner else "It has no keys of its own."
  for name, one in inner.items():
    many = typing.get_origin(_hints(section)[name]) is dict
    below = f".{name}.NAME" if many else f".{name}"
    yield from _section(
      path + below,
      one,
      link=link + below,
      title=path + below,
      level=level + 1,
    )


def _inherited(section: type[Section], base: type[Section] | None) -> set[str]:
  """Names of the keys that a section has from `base`, unchanged."""
  known = base.model_fields if base else {}
  return {
    name
    for name, field in section.model_fields.items()
    if name in known
    and (
      name in ("name", "type")
      or (field.default, field.description)
      == (known[name].default, known[name].description)
    )
  }


def _sections(section: type[Section]) -> dict[str, type[Section]]:
  """Keys that hold keys themselves, and the class of those."""
  found = {}
  for name, hint in _hints(section).items():
    if typing.get_origin(hint) is dict:
      hint = typing.get_args(hint)[1]
    if hint == named_sections.AnyModel:
      continue
    if typing.get_origin(hint) is Annotated:
      hint = typing.get_args(hint)[0]
    if isinstance(hint, type) and issubclass(hint, Section):
      found[name] = hint
  return found


def _rows(
  section: type[Section], path: str, link: str, *, leave_out: Any = ()
) -> Iterator[tuple[str, str, str]]:
  """(key and type, default, meaning) of each key, as cells of Markdown.

  Args:
    section: Class of the section.
    path: Path of its keys; empty at the top.
    link: Path in the links to its rows.
    leave_out: Names that have no row.
  """
  hints = _hints(section)
  for name, field in section.model_fields.items():
    if name not in leave_out:
      key, anchor = (f"{one}.{name}".lstrip(".") for one in (path, link))
      kinds = hint_words.words(hints[name])
      if key in _REGISTERED:
        kinds = hint_words.choices(_REGISTERED[key])
      yield (
        f"`{key}`{{ #{anchor} }}<br>{kinds}",
        _default(field),
        markdown_text.escaped(field.description or "The kind of evaluator."),
      )


def _table(rows: Any) -> str:
  return markdown_text.table(("key and values", "default", "meaning"), rows)


def _default(field: pydantic.fields.FieldInfo) -> str:
  if field.is_required():
    return "required"
  if isinstance(field.default, schema.Model):
    return markdown_text.code(field.default.name)
  return markdown_text.code(repr(field.default))


def _hints(section: type[Section]) -> dict[str, Any]:
  hints = typing.get_type_hints(section, include_extras=True)
  return {name: hints[name] for name in section.model_fields}


def _description(section: type[Section]) -> str:
  """The docstring up to its argument lists, as one paragraph a block."""
  text = (section.__doc__ or "").split("\n\n  Attributes:")[0]
  return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))
