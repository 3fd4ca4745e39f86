"""What every clone holds stays small: golden files, and no other data."""

import subprocess

import pytest

MAX_FILE_BYTES = 150_000
MAX_BYTES = 3_000_000


def test_golden_files_keep_to_their_bounds(repo):
  sizes = {
    str(path.relative_to(repo)): path.stat().st_size
    for path in (repo / "tests" / "golden").rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
  }
  large = {name: size for name, size in sizes.items() if size > MAX_FILE_BYTES}
  assert not large
  assert sum(sizes.values()) <= MAX_BYTES


def test_no_data_is_tracked_outside_the_tests(repo):
  if not (repo / ".git").exists():
    pytest.skip("not a clone: what is tracked is not known")
  tracked = subprocess.run(
    ["git", "ls-files"], cwd=repo, check=True, capture_output=True, text=True
  ).stdout.splitlines()
  data = ("array_record", "tfrecord", ".npz", ".safetensors", ".pth", ".tar")
  assert "README.md" in tracked
  assert not [
    name
    for name in tracked
    if not name.startswith("tests/")
    and any(part in name.rsplit("/", 1)[-1] for part in data)
    and not name.endswith((".py", ".md"))
  ]
