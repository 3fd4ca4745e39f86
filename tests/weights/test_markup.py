"""Other people's words stay words in Markdown."""

import markdown_it
from hypothesis import given
from hypothesis import strategies as st

from vit_jax.weights import markup

TEXTS = st.text(max_size=40) | st.sampled_from(
  ["a\n# b", "`x`", "``", "<script>", "[a](b)", "a | b", "- a", "---", "é\x85"]
)


@given(TEXTS)
def test_code_spans_hold_any_text(text):
  tokens = markdown_it.MarkdownIt().parse(f"see {markup.code(text)} there")
  inline = tokens[1].children
  assert [token.type for token in inline] == ["text", "code_inline", "text"]
  assert inline[1].content.strip() == markup.shortened(text)


@given(TEXTS)
def test_plain_text_becomes_no_markup(text):
  line = "see " + markup.plain(text)
  tokens = markdown_it.MarkdownIt().parse(line)
  assert [token.type for token in tokens] == [
    "paragraph_open",
    "inline",
    "paragraph_close",
  ]
  assert {token.type for token in tokens[1].children} <= {
    "text",
    "text_special",
  }


def test_long_texts_are_shortened():
  assert len(markup.shortened("x" * 10**5)) == 300
