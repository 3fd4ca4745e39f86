"""The tables command as a user meets it."""

import json
import subprocess
import sys

import pytest

from tests.report.tables import workdirs

HEAVY = ("jax", "jaxlib", "flax", "optax", "tensorflow", "orbax")


def command(repo, *arguments, missing=()):
  """Runs it where the packages of `missing` cannot be imported."""
  code = (
    f"import sys; sys.modules.update(dict.fromkeys({list(missing)!r}));"
    f" sys.argv = ['tables', *{list(arguments)!r}];"
    " from vit_jax import command_line, tables; tables.define_flags();"
    " command_line.run(tables.main)"
  )
  return subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, cwd=repo
  )


def test_without_a_number_it_lists_the_tables(repo):
  result = command(repo)
  assert result.returncode == 0
  assert [line[0] for line in result.stdout.splitlines()[:9]] == list(
    "123456789"
  )


def test_it_needs_neither_jax_nor_tensorflow(repo):
  result = command(repo, "6", "--json", missing=HEAVY)
  assert result.returncode == 0, result.stderr
  value = json.loads(result.stdout)
  assert value["table"] == 6
  assert value["rows"][0]["row"] == "ViT-B/32"


def test_runs_are_filled_in_without_jax(repo, tmp_path):
  workdirs.finetune(tmp_path / "tuned", "B_16.npz", 0.9899)
  result = command(
    repo,
    "5",
    f"--runs={tmp_path}",
    "--pretrained=B_16.npz=i21k",
    missing=HEAVY,
  )
  assert result.returncode == 0, result.stderr
  assert "98.99 (+0.04)" in result.stdout


def test_output_goes_by_the_ending_of_its_file(repo, tmp_path):
  for ending, start in (
    (".html", "<!DOCTYPE html>"),
    (".md", "## Table 1."),
    (".tex", "\\begin{table}"),
    (".json", '{\n  "tables"'),
  ):
    path = tmp_path / f"tables{ending}"
    result = command(repo, f"--output={path}")
    assert (result.returncode, result.stdout) == (0, "")
    assert path.read_text().startswith(start)


def test_figures_are_svg_or_pages(repo, tmp_path):
  result = command(repo, "--figure=5", missing=HEAVY)
  assert result.returncode == 0, result.stderr
  assert result.stdout.startswith("<svg xmlns=")
  path = tmp_path / "figure.html"
  assert command(repo, "--figure=3", f"--output={path}").returncode == 0
  assert "ViT-H/14" in path.read_text()


@pytest.mark.parametrize(
  "accelerator, words",
  [("v5e", ("chip-days", "cycles")), ("h100", ("GPU-days", "moved by a GPU"))],
)
def test_costs_are_text_or_data_and_need_no_jax(repo, accelerator, words):
  option = f"--accelerator={accelerator}"
  result = command(repo, "--costs", option, missing=HEAVY)
  assert result.returncode == 0, result.stderr
  for word in ("Table 6", "does not fit", *words):
    assert word in result.stdout
  value = json.loads(command(repo, "--costs", option, "--json").stdout)
  assert set(value) == {"versions", "steps", "runs", "totals"}


def test_help_has_examples_and_loads_no_tables(repo):
  result = subprocess.run(
    [sys.executable, "-m", "vit_jax.tables", "--help"],
    capture_output=True,
    text=True,
    cwd=repo,
  )
  assert "python -m vit_jax.tables 5 --runs=runs" in result.stdout
  assert "--pretrained" in result.stdout


@pytest.mark.parametrize(
  "arguments, sentence",
  [
    (["0"], "no table '0'"),
    (["ten"], "from 1 to 9"),
    (["5", "6"], "no table '5 6'"),
    (["5", "--json", "--format=html"], "two formats"),
    (["5", "--format=docx"], "--format=docx"),
    (["5", "--output=x.docx"], "does not say in which format"),
    (["5", "--output=/nowhere/x.html"], "cannot be written"),
    (["5", "--output=/nowhere/x.md", "--runs=/no"], "no directory /nowhere;"),
    (["5", "--runs=/nowhere"], "no directory '/nowhere'"),
    (["5", "--runs=s3://nowhere/runs"], "s3://nowhere/runs cannot be read"),
    (["5", "--runs=configs"], "No run was found in 'configs'"),
    (["--figure=2"], "must be one of 3, 4, 5"),
    (["5", "--figure=5"], "without the number of a table"),
    (["--figure=5", "--json"], "not json"),
    (["--figure=5", "--output=x.png"], "not png"),
    (["5", "--costs"], "--costs cannot be combined"),
    (["5", "--accelerator=h100"], "give --costs or the table of families"),
    (["--costs", "--accelerator=tpu"], "should be one of"),
    (["--figure=4"], "drawn from runs alone"),
    (["5", "--pretrained=B_16.npz"], "is not FILE=DATA"),
    (["5", "--pretrained=B_16.npz=jft300"], "one of i1k, i21k, jft"),
    (["5", "--pretrained=B_16.npz=i21k"], "give --runs with it"),
    (["families", "--pretrained=B_16.npz=i21k"], "give --runs with it"),
    (["families", "--metric=eval/val/top1"], "give --figure=4 with it"),
    (["6", "--metric=eval/val/top1"], "give --figure=4 with it"),
    (["--figure=3", "--metric=eval/val/top1"], "is of figure 4"),
  ],
)
def test_bad_input_gets_a_sentence_and_exit_code_1(repo, arguments, sentence):
  result = command(repo, *arguments)
  assert result.returncode == 1
  assert sentence in result.stderr
  assert "Traceback" not in result.stderr


@pytest.mark.parametrize("accelerator", ["v5e", "h100"])
def test_families_have_a_table_without_jax(repo, accelerator):
  option = f"--accelerator={accelerator}"
  result = command(repo, "families", option, "--json", missing=HEAVY)
  assert result.returncode == 0, result.stderr
  value = json.loads(result.stdout)
  assert value["table"] == "families"
  assert {"row", "paper", "computed", "config"} <= value["rows"][0].keys()


def test_families_stand_alone(repo):
  result = command(repo, "families", "--runs=x")
  assert result.returncode == 1
  assert "families cannot be combined" in result.stderr
