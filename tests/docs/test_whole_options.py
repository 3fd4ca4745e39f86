"""Options of commands in the site, which no line break divides."""

import html
import re

import pytest

pygments = pytest.importorskip("pygments")


@pytest.fixture
def highlighted():
  """Makes HTML of shell code as the site does."""
  from pygments.formatters import HtmlFormatter
  from pygments.lexers import BashLexer

  formatter = HtmlFormatter(cssclass="language-bash highlight")
  return lambda code: pygments.highlight(code, BashLexer(), formatter)


def text_of(markup):
  return html.unescape(re.sub("<[^>]*>", "", markup))


COMMAND = """\
python -m vit_jax.train --config=configs/deit.py:model=S,distilled \\
  --config.a_b=2 --dry_run 'photos/test/*/1.jpg' --x="$HOME" # --a-comment
"""


def test_each_option_is_an_element_and_no_character_changes(hook, highlighted):
  page = highlighted(COMMAND)
  changed = hook("whole_options").on_page_content(page)
  assert text_of(changed).strip() == text_of(page).strip() == COMMAND.strip()
  # Where an option begins, and where a browser may not break.
  starts = [text_of(x) for x in changed.split('<span class="whole">')[1:]]
  assert [re.match("[^ =]*", start)[0] for start in starts][:5] == [
    "-m",
    "--config",
    "--config.a_b",
    "--dry_run",
    "--x",
  ]
  assert changed.count("<span") == changed.count("</span>")


def test_other_code_is_left_alone(hook, highlighted):
  page = highlighted(COMMAND).replace("language-bash", "language-text")
  assert hook("whole_options").on_page_content(page) == page
