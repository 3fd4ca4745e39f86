"""One document in every format: nothing is lost, nothing breaks."""

import json
import re

import pytest

from vit_jax.paper import results
from vit_jax.report.tables import document, formats, page, sheet
from vit_jax.report.tables.measuring import Measured, Measurement

every_table = pytest.mark.parametrize("number", results.TABLES)
NINE = ("ViT-B/16", "jft")


def measured_table_5():
  rows = results.TABLE_5.rows
  index = next(k for k, r in enumerate(rows) if (r.name, r.data) == NINE)
  return Measured(
    {
      (index, "imagenet"): Measurement((84.0, 84.2, 84.4), ("a", "b", "c")),
      (index, "pets"): Measurement((95.1,), ("<d&e>",)),
    },
    ("The run f is partial & left out.",),
  )


def laid_out(number, measured=None):
  return sheet.lay_out(document.build(results.TABLES[number], measured))


@every_table
def test_json_has_the_contracts_keys(number):
  value = json.loads(json.dumps(document.build(results.TABLES[number])))
  assert value["table"] == number
  assert len(value["rows"]) == len(results.TABLES[number].rows)
  for row in value["rows"]:
    assert {"row", "paper", "computed", "measured", "config"} <= row.keys()
    assert row["measured"] is None


def test_a_row_of_table_6_is_the_papers():
  rows = document.build(results.TABLE_6)["rows"]
  row = next(row for row in rows if row["row"] == "ViT-B/16")
  assert row["paper"]["epochs"] == 7
  assert row["paper"]["imagenet"] == 84.15
  assert row["paper"]["exaflops"] == 224
  assert row["computed"]["exaflops"] == pytest.approx(223.5, abs=0.05)
  assert row["config"] == "configs/pretrain.py:model=B/16,data=jft,epochs=7"


def test_measurements_stand_beside_the_papers_with_their_difference():
  rows = document.build(results.TABLE_5, measured_table_5())["rows"]
  (row,) = [row for row in rows if row["measured"]]
  assert row["measured"] == pytest.approx({"imagenet": 84.2, "pets": 95.1})
  assert row["measured_std"] == pytest.approx({"imagenet": 0.2, "pets": None})
  assert row["difference"] == pytest.approx({"imagenet": 0.05, "pets": -0.7})
  assert row["runs"] == {"imagenet": ["a", "b", "c"], "pets": ["<d&e>"]}
  text = formats.text(laid_out(5, measured_table_5()))
  (line,) = [x for x in text.splitlines() if x.startswith("measured")]
  assert re.split(r"\s{2,}", line) == [
    "measured",
    "84.20 ± 0.20 (+0.05)",
    "95.10 (−0.70)",
  ]


@every_table
@pytest.mark.parametrize("kind", formats.FORMATS)
def test_every_printed_number_is_there(number, kind):
  table = results.TABLES[number]
  text = formats.FORMATS[kind](laid_out(number)).replace(",", "")
  for row in table.rows:
    for key, cell in row.cells.items():
      digits = table.columns[key].digits
      if isinstance(cell.value, int | float) and digits is not None:
        assert f"{cell.value:.{digits}f}" in text


@every_table
def test_text_is_aligned(number):
  lines = formats.text(laid_out(number)).splitlines()
  lines = lines[2 : lines.index("", 2)]
  built = laid_out(number)
  # Between two columns there are two spaces in every line.
  widths = [
    max(map(len, column))
    for column in zip(*((x.name, *x.cells) for x in built.lines), strict=True)
  ]
  at = 0
  for head, width in zip(built.heads[:-1], widths[:-1], strict=True):
    at += max(width, len(head)) + 2
    assert {line[at - 2 : at] for line in lines} == {"  "}


@every_table
def test_markdown_rows_have_as_many_cells_as_the_head(number):
  text = formats.markdown(laid_out(number, None))
  for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
    counts = {len(re.findall(r"(?<!\\)\|", x)) for x in block.splitlines()}
    assert len(counts) == 1


@every_table
def test_latex_rows_have_as_many_cells_as_columns_and_are_escaped(number):
  text = formats.latex(laid_out(number))
  (columns,) = re.findall(r"\\begin\{tabular\}\{(l.*)\}", text)
  body = text.split("\\toprule\n")[1].split("\\bottomrule")[0]
  for line in body.splitlines():
    if line != r"\midrule":
      assert len(re.findall(r"(?<!\\)&", line)) + 1 == len(columns)
      assert not re.search(r"(?<!\\)[%_#]", line)
  visible = "\n".join(x for x in text.splitlines() if x[0] != "%")
  assert visible.isascii()


@every_table
def test_pages_are_self_contained_and_escaped(number):
  sections = [page.of_table(laid_out(number))]
  text = page.render(sections, with_runs=False)
  assert not re.search(r"(src|href)=\"(?!data:)", text)
  for name in {row.name for row in results.TABLES[number].rows}:
    assert name in text


def test_a_page_escapes_what_runs_are_called():
  remark = "The run <script> & others."
  built = laid_out(5, Measured({}, (remark,)))
  text = page.render([page.of_table(built)], with_runs=True)
  assert "<script>" not in text
  assert "The run &lt;script&gt; &amp; others." in text


def test_wide_tables_stand_on_their_side():
  built = laid_out(9)
  assert built.heads == ("", "ViT-H/14", "ViT-L/16", "ViT-L/16")
  cells = {line.name: line.cells for line in built.lines}
  assert cells["KITTI-Dist"] == ("84.5", "82.2", "79.9")
  assert built.is_word == (True, False, False, False)


def test_runs_are_columns_where_a_table_stands_on_its_side():
  built = laid_out(9, Measured({(1, "kitti"): Measurement((82.0,), ("a",))}))
  assert built.heads == ("", "ViT-H/14", "ViT-L/16", "measured", "ViT-L/16")
  cells = {line.name: line.cells for line in built.lines}
  assert cells["KITTI-Dist"] == ("84.5", "82.2", "82.0 (−0.2)", "79.9")


def test_words_begin_at_the_left():
  built = laid_out(5)
  assert built.is_word[:3] == (True, True, False)


def test_lacking_configs_are_said_with_their_rows():
  notes = " ".join(laid_out(6).notes)
  assert "R200x3" in notes and "859 is probably a slip" in notes
