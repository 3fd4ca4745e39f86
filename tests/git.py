"""Repositories that tests make."""

import subprocess


def git(place, *words):
  """The output of a git command in a directory, by an author of its own."""
  author = ["-c", "user.name=n", "-c", "user.email=e"]
  return subprocess.run(
    ["git", *author, *words],
    cwd=place,
    check=True,
    capture_output=True,
    text=True,
  ).stdout.strip()
