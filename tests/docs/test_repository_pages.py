"""Links of the pages hold in the repository and on the site."""

import types

import pytest


@pytest.fixture
def on_site(hook):
  """on_site(page, text) is the text of a page of the site."""
  pages = hook("repository_pages")

  def text_of(page: str, text: str) -> str:
    file = types.SimpleNamespace(src_uri=page)
    return pages.on_page_markdown(
      text, types.SimpleNamespace(file=file), None, None
    )

  return text_of


@pytest.mark.parametrize(
  ("page", "link", "target"),
  [
    ("data.md", "configs.md#settings", "configs.md#settings"),
    ("commands.md", "../README.md#install", "readme.md#install"),
    ("readme.md", "docs/data.md#image-folders", "data.md#image-folders"),
    ("readme.md", "CONTRIBUTING.md", "contributing.md"),
    ("readme.md", "CITATION.cff", "source/CITATION.cff.md"),
    ("configs.md", "../configs", "source/configs.md"),
    (
      "reference/config.md",
      "../../vit_jax/config/schema.py",
      "../source/vit_jax/config/schema.py.md",
    ),
    ("notebooks/quickstart.md", "../evaluation.md", "../evaluation.md"),
    ("index.md", "notebooks/quickstart.ipynb", "notebooks/quickstart.md"),
    ("index.md", "https://arxiv.org/abs/1", "https://arxiv.org/abs/1"),
    ("index.md", "#here", "#here"),
  ],
)
def test_a_link_leads_to_the_page_of_the_site(on_site, page, link, target):
  assert on_site(page, f"See [it]({link}).") == f"See [it]({target})."


def test_code_is_left_alone(on_site):
  code = "```python\nrows[0](../README.md)\n```\n"
  assert on_site("data.md", code) == code


def test_a_folder_lists_its_files(hook):
  page, within = hook("repository_pages")._source_page("configs")
  assert "configs/quickstart.py" in within
  assert "A small ViT on real handwritten digits" in page
  assert r"CLASS/\*.jpg, or DIR/CLASS/\*.jpg" in page
