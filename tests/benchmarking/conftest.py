"""The images of the tests of data and of models."""

from tests.data.conftest import encode, jpegs, memory_source, raw, smooth
from tests.models.conftest import images

__all__ = ["encode", "images", "jpegs", "memory_source", "raw", "smooth"]
