from vit_jax import text_tables

ROWS = [("name", "n"), ("a", "100"), ("long name", "")]


def test_columns_are_aligned():
  assert text_tables.aligned(ROWS, right=(1,)) == [
    "name         n",
    "a          100",
    "long name",
  ]


def test_markdown_has_a_rule_below_its_header():
  assert text_tables.markdown(ROWS) == (
    "| name      | n   |\n"
    "|-----------|-----|\n"
    "| a         | 100 |\n"
    "| long name |     |"
  )
