import pytest

from vit_jax.report import subjects


@pytest.mark.parametrize(
  ("paths", "names"),
  [
    (["runs/a"], ["a"]),
    (["runs/a", "runs/b/"], ["a", "b"]),
    (["x/b16", "y/b16", "y/l16"], ["x/b16", "y/b16", "l16"]),
    (["a", "runs/a"], ["a", "runs/a"]),
    (["/a", "/b/a"], ["/a", "b/a"]),
    (
      ["runs/a/checkpoints/500", "runs/a/checkpoints/1000", "runs/b"],
      ["a, step 500", "a, step 1000", "b"],
    ),
    (
      ["x/a/checkpoints/500", "y/a/checkpoints/500"],
      ["x/a, step 500", "y/a, step 500"],
    ),
    (["gs://bucket/runs/a", "model.npz"], ["a", "model.npz"]),
  ],
)
def test_names_are_as_short_as_tells_them_apart(paths, names):
  assert subjects.short_names(paths) == names


def test_the_same_place_is_known_under_other_spellings():
  assert subjects.same_place("./runs//a/") == subjects.same_place("runs/a")
  assert subjects.same_place("gs://b/a/") == subjects.same_place("gs://b/a")
  assert subjects.same_place("runs/a") != subjects.same_place("runs/b")
