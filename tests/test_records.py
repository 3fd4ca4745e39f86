"""metrics.jsonl and JSON files."""

import json
import math
import resource

import pytest

from vit_jax import records


def test_lines_come_back_as_written(tmp_path):
  path = tmp_path / "metrics.jsonl"
  file = records.MetricsFile(path, last_step=0)
  file.write(1, {"train/loss": 2.5})
  file.write(1, {"eval/test/top1": 0.5})
  file.write(2, {"train/loss": 2.0})
  file.close()
  assert records.read_lines(path) == [
    {"step": 1, "train/loss": 2.5},
    {"step": 1, "eval/test/top1": 0.5},
    {"step": 2, "train/loss": 2.0},
  ]


def test_a_run_that_goes_on_drops_the_lines_it_will_write_again(tmp_path):
  path = tmp_path / "metrics.jsonl"
  lines = [{"step": step, "x": step} for step in (1, 2, 3)]
  torn = '{"step": 4, "x'
  path.write_text("".join(json.dumps(line) + "\n" for line in lines) + torn)
  file = records.MetricsFile(path, last_step=2)
  file.write(3, {"x": 30})
  file.close()
  assert records.read_lines(path) == [*lines[:2], {"step": 3, "x": 30}]


def test_a_torn_or_foreign_line_is_left_out(tmp_path):
  path = tmp_path / "metrics.jsonl"
  path.write_text('{"step": 1}\n[1, 2]\n{"no": "step"}\n{"step": 2, "a"')
  assert records.read_lines(path) == [{"step": 1}]


def test_a_line_that_no_kill_of_the_run_tore_is_said(tmp_path, caplog):
  path = tmp_path / "metrics.jsonl"
  path.write_bytes(b'{"step": 1}\n{"step": 2, "loss": 1.\xff\n{"step": 3, "l')
  records.MetricsFile(path, last_step=2).close()
  assert records.read_lines(path) == [{"step": 1}]
  (warning,) = caplog.messages
  assert "line 2, of step 2," in warning
  assert '"loss": 1.' in warning


def test_what_is_not_finite_becomes_null(tmp_path):
  path = tmp_path / "summary.json"
  records.write_json(path, {"a": math.nan, "b": [math.inf, 1.5], "c": {"d": 1}})
  assert json.loads(path.read_text()) == {
    "a": None,
    "b": [None, 1.5],
    "c": {"d": 1},
  }


@pytest.mark.parametrize("damaged", [None, b"", b'{"a', b"\xff", b"[1]"])
def test_a_file_without_a_whole_object_is_an_empty_one(tmp_path, damaged):
  path = tmp_path / "summary.json"
  records.write_json(path, {"step": 3})
  assert records.read_json(path) == {"step": 3}
  path.unlink() if damaged is None else path.write_bytes(damaged)
  assert records.read_json(path) == {}


def test_writing_a_file_leaves_nothing_else_behind(tmp_path):
  records.write_json(tmp_path / "summary.json", {})
  records.write_json(tmp_path / "summary.json", {"x": 1})
  assert [p.name for p in tmp_path.iterdir()] == ["summary.json"]


def test_lines_wait_for_a_disk_that_is_full(tmp_path, caplog):
  path = tmp_path / "metrics.jsonl"
  file = records.MetricsFile(path, last_step=0)
  file.write(1, {"a": 1})
  limits = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (30, limits[1]))
  try:
    file.write(2, {"a": 2})
    file.write(3, {"a": 3})
    assert [x["step"] for x in records.read_lines(path)] == [1]
    assert path.read_text().endswith("}\n")  # None is torn.
    with pytest.raises(OSError):
      file.close()
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
  assert caplog.text.count("ALARM") == 1


def test_lines_that_waited_are_written_with_the_next_one(tmp_path):
  path = tmp_path / "metrics.jsonl"
  file = records.MetricsFile(path, last_step=0)
  limits = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (5, limits[1]))
  file.write(1, {"a": 1})
  resource.setrlimit(resource.RLIMIT_FSIZE, limits)
  file.write(2, {"a": 2})
  assert [x["step"] for x in records.read_lines(path)] == [1, 2]
  file.close()


def test_an_evaluation_is_known_by_the_prefix_of_its_metrics(tmp_path):
  file = records.MetricsFile(tmp_path / "metrics.jsonl", last_step=0)
  file.write(1, {"train/loss": 2.5})
  file.write(2, {"knn/a/k5": 0.5})
  file.close()
  assert not file.has_any(1, ("eval/", "knn/"))
  assert file.has_any(2, ("eval/", "knn/"))


def test_numbers_in_the_names_of_metrics_count_by_value():
  metrics = ["b/10shot", "b/5shot", "a/2/top1", "b/1shot", "a/10/top1", "loss"]
  assert sorted(metrics, key=records.in_order) == [
    "a/2/top1",
    "a/10/top1",
    "b/1shot",
    "b/5shot",
    "b/10shot",
    "loss",
  ]
