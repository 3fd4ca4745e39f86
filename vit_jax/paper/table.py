"""The form that a table of the paper has as data."""

import dataclasses
import re
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Cell:
  """A printed cell.

  Attributes:
    value: A number, or words such as 'cosine'.
    std: Standard deviation over three fine-tuning runs; None if not printed.
  """

  value: int | float | str
  std: float | None = None


@dataclasses.dataclass(frozen=True)
class Column:
  """A column.

  Attributes:
    title: Head of the column.
    digits: Decimals of its numbers; None prints as many as needed.
    unit: '%', or 'fraction' of an accuracy between 0 and 1; '' of all else.
  """

  title: str
  digits: int | None = None
  unit: str = ""

  @property
  def is_accuracy(self) -> bool:
    """Tells if a run can be measured by it."""
    return self.unit in ("%", "fraction")


@dataclasses.dataclass(frozen=True)
class Row:
  """A row: a network, how it was pre-trained, and what is printed of it.

  Attributes:
    name: Name of the row in the paper.
    cells: Printed cells by column; an empty one has no key.
    model: A name that `config.names.find` knows; None is no network of ours.
    data: Pre-training data, 'i1k', 'i21k' or 'jft'; None if not said.
    epochs: Epochs of pre-training, said in any table; None if not said.
    optimizer: Optimizer of pre-training, 'adam' or 'sgd'.
  """

  name: str
  cells: Mapping[str, Cell]
  model: str | None = None
  data: str | None = None
  epochs: int | float | None = None
  optimizer: str = "adam"

  @property
  def key(self) -> str:
    """'ViT-L/16,jft,14,adam': what `paper_row` calls the row."""
    if self.data is None or self.epochs is None:
      return self.name
    return f"{self.model},{self.data},{self.epochs:g},{self.optimizer}"

  @property
  def variant(self) -> str | None:
    """'B/16', 'R50+B/16', 'R50x1': what configs call the network."""
    if self.model is None:
      return None
    return self.model.replace("R50x1+", "R50+").replace("ViT-", "")


@dataclasses.dataclass(frozen=True)
class Table:
  """A table of the paper.

  Attributes:
    number: Number of the table in the paper.
    title: Subject of the table, in our words.
    columns: Columns by key, in the order of printing.
    rows: Rows from the top.
    notes: Sentences that a reader of the table needs.
    source: Tag of the source of its numbers; [P] is the paper's second version.
  """

  number: int
  title: str
  columns: Mapping[str, Column]
  rows: tuple[Row, ...]
  notes: tuple[str, ...] = ()
  source: str = "[P]"

  def find(self, name: str, **attributes: object) -> Row:
    """The one row of this name and these attributes.

    Raises:
      LookupError: There is none, or several.
    """
    found = [
      row
      for row in self.rows
      if row.name == name
      and all(getattr(row, k) == v for k, v in attributes.items())
    ]
    if len(found) != 1:
      raise LookupError(
        f"Table {self.number} has {len(found)} rows {name!r} {attributes}."
      )
    return found[0]


def lines(text: str) -> list[tuple[str, dict[str, Cell]]]:
  """Rows of a literal: the head names columns, '-' is an empty place.

  Args:
    text: Lines of 'NAME | CELL CELL ...', of which the first has column keys
      for cells. A cell is a number, NUMBER±STD or a word.

  Returns:
    Name and cells of each row.

  Raises:
    ValueError: A row lacks cells or has too many.
  """
  table = [line.split("|") for line in text.strip().splitlines()]
  keys = table[0][1].split()
  return [
    (
      name.strip(),
      {
        key: _cell(word)
        for key, word in zip(keys, words.split(), strict=True)
        if word != "-"
      },
    )
    for name, words in table[1:]
  ]


def _cell(word: str) -> Cell:
  if not re.fullmatch(r"[\d.e-]+(±[\d.]+)?", word):
    return Cell(word)
  value, _, std = word.partition("±")
  number = int(value) if value.isdigit() else float(value)
  return Cell(number, float(std) if std else None)
