"""Pages that the site has of files outside docs/, and the links to them.

README.md, CONTRIBUTING.md and CHANGELOG.md are pages of the site. So is every
file or folder of sources that a page links to: links hold both in the
repository, where they are relative paths, and on the site, which needs no
address of a repository.
"""

import ast
import pathlib
import posixpath
import re
from typing import Any

import markdown_text
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = pathlib.Path(__file__).parents[2]
_DOCS = "docs"
# Lower case, as README.md would be the page of its folder.
_PAGES = {
  "README.md": "readme.md",
  "CONTRIBUTING.md": "contributing.md",
  "CHANGELOG.md": "changelog.md",
}
_SOURCES = "source"
# A search is for what is written about the sources.
_HEAD = "---\nsearch:\n  exclude: true\n---\n\n"
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)([^)\s#]+)(#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_LANGUAGES = {".py": "python", ".sh": "bash", ".toml": "toml", ".cff": "yaml"}


def on_files(files: Files, config: Any) -> Files:
  """Adds the pages to the site."""
  for name, page in _PAGES.items():
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    files.append(File.generated(config, page, content=text))
  linked = {
    path
    for file in files.documentation_pages()
    for path in _linked_sources(file)
  }
  while linked:
    path = linked.pop()
    text, within = _source_page(path)
    files.append(File.generated(config, _page_of(path), content=text))
    linked |= {
      one for one in within if not files.get_file_from_path(_page_of(one))
    }
  return files


def on_page_markdown(text: str, page: Page, config: Any, files: Files) -> str:
  """The page with links that hold on the site."""
  return _outside_fences(text, lambda part: _with_links(part, page.file))


def _linked_sources(file: File) -> set[str]:
  """Paths, from the root of the repository, of sources that a page links to."""
  found = set()

  def note(part: str) -> str:
    for match in _LINK.finditer(part):
      path = _in_repository(match[1], file)
      if _is_source(path):
        found.add(path)
    return part

  _outside_fences(file.content_string, note)
  return found


def _with_links(part: str, file: File) -> str:
  here = posixpath.dirname(file.src_uri)

  def replaced(match: re.Match) -> str:
    path = _in_repository(match[1], file)
    if _is_source(path):
      target = _page_of(path)
    elif path in _PAGES:
      target = _PAGES[path]
    elif path.startswith(f"{_DOCS}/"):
      target = path.removeprefix(f"{_DOCS}/")
      target = re.sub(r"\.ipynb$", ".md", target)
    else:
      return match[0]
    return posixpath.relpath(target, here or ".") + (match[2] or "")

  return _LINK.sub(replaced, part)


def _in_repository(link: str, file: File) -> str:
  """Path of a link's target from the root of the repository."""
  outside = file.src_uri in _PAGES.values()
  folder = posixpath.dirname(file.src_uri)
  base = "" if outside else posixpath.join(_DOCS, folder)
  return posixpath.normpath(posixpath.join(base, link))


def _is_source(path: str) -> bool:
  """True for files and folders that are no pages of the site by themselves."""
  if path in _PAGES or path.startswith((f"{_DOCS}/", "..")):
    return False
  return (REPOSITORY / path).exists()


def _page_of(path: str) -> str:
  return posixpath.join(_SOURCES, f"{path}.md")


def _source_page(path: str) -> tuple[str, set[str]]:
  """Markdown that shows a file or lists a folder, and what it links to."""
  place = REPOSITORY / path
  if not place.is_dir():
    code = place.read_text(encoding="utf-8").rstrip()
    start = f'``````{_LANGUAGES.get(place.suffix, "text")} title="{path}"'
    page = f"# {place.name}\n\n{start}\n{code}\n``````\n"
    return _HEAD + page, set()
  within = sorted(one for one in place.iterdir() if one.suffix == ".py")
  up = posixpath.relpath(".", posixpath.dirname(f"{_DOCS}/{_page_of(path)}"))
  rows = [
    f"| [`{one.name}`]({up}/{path}/{one.name}) | {_summary(one)} |"
    for one in within
  ]
  page = _HEAD + "\n".join(
    [f"# {path}/", "", "| file | |", "|---|---|", *rows, ""]
  )
  return page, {f"{path}/{one.name}" for one in within}


def _summary(file: pathlib.Path) -> str:
  """The first line of a module's docstring."""
  text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
  return markdown_text.escaped(text.partition("\n")[0])


def _outside_fences(text: str, change: Any) -> str:
  """The text with all but its blocks of code changed."""
  parts, end = [], 0
  for fence in _FENCE.finditer(text):
    parts += [change(text[end : fence.start()]), fence[0]]
    end = fence.end()
  return "".join([*parts, change(text[end:])])
