"""What a person sees while a run trains."""

import io
import time

import pytest

from vit_jax.rundir.progress import Progress, format_duration

METRICS = {
  "train/loss": 1.25,
  "train/learning_rate": 1e-3,
  "perf/images_per_second": 640.0,
  "perf/data_wait_fraction": 0.012,
}


class Terminal(io.StringIO):
  def isatty(self):
    return True


def test_a_file_gets_plain_lines():
  out = io.StringIO()
  Progress(1000, out).step(50, METRICS, seconds_left=95)
  assert out.getvalue() == (
    "step   50/1000  loss 1.2500  lr 1.00e-03  640 images/s  data wait 1.2%"
    "  ETA 1 min 35 s\n"
  )


def test_a_terminal_gets_a_bar_that_renews_itself(monkeypatch):
  monkeypatch.setenv("COLUMNS", "200")
  out = Terminal()
  progress = Progress(1000, out)
  progress.step(50, METRICS, seconds_left=10)
  progress.step(900, METRICS, seconds_left=1)
  progress.say("done")
  first, second = out.getvalue().split("\r")[1:]
  second, last, _ = second.split("\n")
  assert first.startswith(f"[{'#' * 1}{'.' * 29}]   50/1000  loss 1.2500")
  assert second.startswith(f"[{'#' * 27}{'.' * 3}]  900/1000  loss 1.2500")
  assert len(second) >= len(first)  # What was longer is covered.
  assert last == "done"


def test_a_terminal_sees_steps_between_the_logged_ones(monkeypatch):
  clock = iter([0.0, 0.1, 0.3])
  monkeypatch.setattr(time, "monotonic", lambda: next(clock))
  out = Terminal()
  progress = Progress(10, out)
  for step in (1, 2, 3):
    progress.tick(step)
  drawn = out.getvalue().split("\r")[1:]
  assert [line.split()[1] for line in drawn] == ["1/10", "3/10"]


def test_a_file_does_not_see_them():
  out = io.StringIO()
  Progress(10, out).tick(1)
  assert not out.getvalue()


def test_a_line_is_no_longer_than_the_terminal(monkeypatch):
  monkeypatch.setenv("COLUMNS", "60")
  out = Terminal()
  Progress(1000, out).step(50, METRICS, seconds_left=10)
  assert len(out.getvalue().strip("\r")) == 59


def test_a_terminal_breaks_a_line_between_items(monkeypatch):
  monkeypatch.setenv("COLUMNS", "30")
  items = ["test/top1 0.9321", "test/loss 0.25", "test/top5 1"]
  line = "evaluation at step 5: test/top1 0.9321  test/loss 0.25  test/top5 1\n"
  for out, wanted in (
    (io.StringIO(), line),
    (
      Terminal(),
      "evaluation at step 5:\n  test/top1 0.9321\n"
      "  test/loss 0.25  test/top5 1\n",
    ),
  ):
    Progress(10, out).say("evaluation at step 5:", items)
    assert out.getvalue() == wanted


def test_utilization_is_shown_where_it_is_known():
  out = io.StringIO()
  metrics = METRICS | {"perf/model_flops_utilization": 0.551}
  Progress(10, out).step(1, metrics, seconds_left=1)
  assert "MFU 55.1%" in out.getvalue()


def test_processes_other_than_the_first_say_nothing():
  progress = Progress(10, None)
  progress.step(1, METRICS, seconds_left=1)
  progress.say("nothing")


@pytest.mark.parametrize(
  ("seconds", "text"),
  [
    (0.4, "0 s"),
    (59, "59 s"),
    (125, "2 min 05 s"),
    (12_000, "3 h 20 min"),
    (187_200, "2 d 4 h"),
  ],
)
def test_durations_are_short(seconds, text):
  assert format_duration(seconds) == text
