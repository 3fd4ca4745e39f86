"""The table of the families after ViT."""

import json

import pytest

from vit_jax.paper import families
from vit_jax.report.tables import output

ROWS = {
  row["row"]: row for row in json.loads(output.render_families("json"))["rows"]
}


@pytest.mark.parametrize("name", ROWS)
def test_what_we_count_is_what_is_published(name):
  row = ROWS[name]
  paper, computed = row["paper"], row["computed"]
  millions = computed["params"] / 1e6
  assert 25 < paper["imagenet"] < 100
  if "params" in paper:
    # Printed in whole millions, rounded or cut, or to a tenth.
    whole = paper["params"] == int(paper["params"])
    assert millions == pytest.approx(paper["params"], abs=1 if whole else 0.1)
  if "gmacs" in paper:
    assert computed["gmacs"] == pytest.approx(
      paper["gmacs"], rel=0.012, abs=0.05
    )


def test_costs_are_three_forward_passes_of_every_image():
  row = ROWS["ConvNeXt-T, 224 px"]
  wanted = 3 * 2 * row["computed"]["gmacs"] * 1e9 * 1_281_167 * 300 / 1e18
  assert row["computed"]["exaflops"] == pytest.approx(wanted, rel=1e-6)


def test_days_of_a_chip_are_those_of_every_image_at_the_compiled_rate():
  row = ROWS["Swin-T, 224 px"]
  # 116.26 million cycles of 1.5 GHz for 64 images on each chip.
  seconds = 116.26e6 / 1.5e9 / 64 * 1_281_167 * 300
  wanted = seconds / 86_400
  assert row["computed"]["chip_days"] == pytest.approx(wanted, abs=0.05)
  assert "chip_days" not in ROWS["Swin-B, 384 px"]["computed"]


def test_every_format_has_every_row_and_its_config():
  for kind in ("text", "markdown", "latex", "html"):
    text = output.render_families(kind)
    for result in families.RESULTS:
      assert result.row in text
      assert result.config.replace("_", "\\_") in text or result.config in text


def test_the_page_has_the_table(repo):
  text = (repo / "docs" / "families.md").read_text()
  rows = [
    line
    for line in output.render_families("markdown").splitlines()
    if line.startswith("|") and " px" in line and "configs/" not in line
  ]
  assert len(rows) == len(ROWS)
  for row in rows:
    assert row in text
