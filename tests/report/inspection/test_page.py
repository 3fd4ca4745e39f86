"""The page and the files beside it."""

import io

import numpy as np

from vit_jax.report.figures.canvas import Canvas
from vit_jax.report.inspection import page
from vit_jax.report.inspection.figure import Figure


def files(*sections, title="ViT", paths=()):
  return page.files(
    list(sections), title=title, lead="Seen.", paths=list(paths)
  )


def figure(name, **numbers):
  return Figure(name, f"Title of {name}", "A < B.", Canvas(20.0, 10.0), numbers)


def test_every_figure_is_a_file_and_in_the_page_with_its_words():
  sections = [
    page.Section("One", [figure("a"), figure("b")]),
    page.Section("Two", [figure("c")], ["Mind this."]),
  ]
  found = files(*sections)
  assert set(found) == {"a.png", "b.png", "c.png", page.NUMBERS, page.FILE}
  html = found[page.FILE].decode()
  for name in "abc":
    assert f'alt="Title of {name}. A &lt; B."' in html
    assert f'href="{name}.png"' in html
  assert html.index("One") < html.index("Title of b") < html.index("Two")
  assert "Mind this." in html


def test_the_numbers_of_all_figures_are_in_one_file():
  section = page.Section(
    "One", [figure("a", x=np.arange(3)), figure("b", y=np.ones((2, 2)))]
  )
  with np.load(io.BytesIO(files(section)[page.NUMBERS])) as numbers:
    assert set(numbers) == {"x", "y"}
    np.testing.assert_array_equal(numbers["x"], [0, 1, 2])


def test_names_of_files_cannot_add_to_the_page():
  html = files(title="<b>", paths=["<script>.png"])[page.FILE].decode()
  assert "<script" not in html and "<b>" not in html
  assert "&lt;script&gt;.png" in html


def test_names_of_files_may_have_any_bytes():
  odd = b"caf\xe9.jpg".decode(errors="surrogateescape")
  found = files(title=odd, paths=[odd])[page.FILE].decode()
  assert "caf\ufffd.jpg" in found


def test_a_page_without_images_lists_none():
  assert "<ol" not in files()[page.FILE].decode()
  assert "<ol" in files(paths=["a.png"])[page.FILE].decode()
