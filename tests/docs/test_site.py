"""The site as a whole: complete, and all from one host."""

import html.parser
import os
import pathlib
import re
import subprocess
import sys

import pytest

yaml = pytest.importorskip("yaml")


def pages_of(entry: object) -> list[str]:
  """Paths in a part of the navigation."""
  if isinstance(entry, str):
    return [entry]
  parts = entry.values() if isinstance(entry, dict) else entry
  return [page for part in parts for page in pages_of(part)]


@pytest.fixture
def navigation(repo) -> list[str]:
  text = (repo / "mkdocs.yml").read_text(encoding="utf-8")
  return pages_of(yaml.safe_load(text)["nav"])


def test_the_navigation_has_every_page_once(repo, navigation):
  docs = repo / "docs"
  written = {str(path.relative_to(docs)) for path in docs.glob("**/*.md")}
  notebooks = {
    str(path.relative_to(docs).with_suffix(".md"))
    for path in docs.glob("notebooks/*.ipynb")
  }
  assert written | notebooks <= set(navigation)
  assert len(navigation) == len(set(navigation))


class Loaded(html.parser.HTMLParser):
  """Collects the addresses of all that a page loads."""

  def __init__(self):
    super().__init__()
    self.addresses: list[str] = []

  def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]):
    values = dict(attrs)
    if tag == "link" and values.get("rel") != "canonical":
      self.addresses.append(values.get("href") or "")
    elif tag in ("script", "img", "iframe", "source", "video"):
      self.addresses.append(values.get("src") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> pathlib.Path:
  """The site, built strictly."""
  pytest.importorskip("material")
  pytest.importorskip("mkdocstrings")
  folder = tmp_path_factory.mktemp("site")
  subprocess.run(
    [sys.executable, "-m", "mkdocs", "--quiet", "build", "--strict"]
    + ["--site-dir", str(folder)],
    cwd=pathlib.Path(__file__).parents[2],
    env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    check=True,
  )
  return folder


@pytest.mark.slow
def test_the_site_loads_nothing_from_other_hosts(site):
  pages = list(site.rglob("*.html"))
  assert len(pages) > 60
  for page in pages:
    loaded = Loaded()
    loaded.feed(page.read_text(encoding="utf-8"))
    assert loaded.addresses
    for address in loaded.addresses:
      assert not address.startswith(("http:", "https:", "//")), (page, address)


@pytest.mark.slow
def test_the_python_interface_is_documented(site):
  import vit_jax

  page = (site / "reference" / "python.html").read_text(encoding="utf-8")
  headings = re.findall(r"<h2[^>]*>\s*(vit_jax\.\w+)", page)
  assert headings == [f"vit_jax.{name}" for name in vit_jax.__all__]
  # The parts of Google's docstrings are recognised.
  assert page.count("Returns:") > 5 and not re.search("<p>[^<]*Args:", page)
