"""Pages of the notebooks: their text and code, without running them."""

import json
import posixpath
from typing import Any

from mkdocs.structure.files import File, Files

_FOLDER = "notebooks/"
_OPENING = """\
<p><a href="{name}.ipynb" download>Download this notebook</a> and open it in
Jupyter, or in Colab by <em>File, Upload notebook</em>. This page has its text
and code; run it to see its figures.</p>
"""


def on_files(files: Files, config: Any) -> Files:
  """Adds the page of each notebook to the site."""
  for file in files.media_files():
    if file.src_uri.startswith(_FOLDER) and file.src_uri.endswith(".ipynb"):
      path = file.src_uri.removesuffix(".ipynb")
      text = page(posixpath.basename(path), file.content_string)
      files.append(File.generated(config, f"{path}.md", content=text))
  return files


def page(name: str, notebook: str) -> str:
  """Markdown of a notebook.

  Args:
    name: Name of its file, without the suffix.
    notebook: Its content, JSON.
  """
  title, *cells = json.loads(notebook)["cells"]
  opening, _, rest = "".join(title["source"]).partition("\n")
  parts = [opening, rest.strip(), _OPENING.format(name=name)]
  for cell in cells:
    source = "".join(cell["source"])
    if cell["cell_type"] == "code":
      shell, source = (
        source.startswith("%%bash\n"),
        source.removeprefix("%%bash\n"),
      )
      source = f"```{'bash' if shell else 'python'}\n{source}\n```"
    parts.append(source)
  return "\n\n".join(parts) + "\n"
