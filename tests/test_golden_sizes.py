"""The golden files stay small: every clone of the repository has them."""

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
