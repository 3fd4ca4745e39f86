"""The images in memory of the data's tests."""

from tests.data.conftest import encode, jpegs, memory_source, raw, smooth

__all__ = ["encode", "jpegs", "memory_source", "raw", "smooth"]
