"""What processes see of their storage, until it is the same."""

import json

import pytest

from vit_jax.processes import agreement, same_view


@pytest.fixture
def other(monkeypatch):
  """What process 1 sees, look by look; the last one stays."""
  looks = []

  def gather(text):
    seen = looks.pop(0) if len(looks) > 1 else looks[0]
    return [text, json.dumps([seen, False])]

  monkeypatch.setattr(agreement, "gather", gather)
  monkeypatch.setattr(same_view, "_PAUSE_SECONDS", 0.01)
  return looks


def test_a_lone_process_looks_once():
  looks = iter(["mine"])
  assert same_view.views(lambda: next(looks), "it") == ["mine"]


def test_the_others_are_waited_for(other, caplog):
  other += ["old", "old", "new"]
  assert same_view.views(lambda: "new", "runs/first") == ["new", "new"]
  assert caplog.messages == [
    "Waiting until all hosts see the same in runs/first."
  ]


def test_process_0_too_sees_what_is_new_to_it(other):
  other.append("new")
  looks = iter(["old", "old", "new"])
  assert same_view.views(lambda: next(looks), "it") == ["new", "new"]


def test_the_wait_has_an_end(other, monkeypatch):
  monkeypatch.setattr(same_view, "SECONDS", 0.05)
  other.append("old")
  assert same_view.views(lambda: "new", "it") == ["new", "old"]
