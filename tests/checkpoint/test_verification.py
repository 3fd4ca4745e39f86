"""Sentences on checkpoints that cannot be reached."""

import errno

import pytest
from etils import epath

from vit_jax.checkpoint import verification
from vit_jax.errors import UserError


@pytest.mark.parametrize(
  "error",
  [
    OSError("The bucket was not found."),
    OSError("The bucket was not found.."),
    OSError(errno.EIO, "The bucket was not found"),
  ],
)
def test_the_sentence_ends_in_one_full_stop(error):
  with (
    pytest.raises(UserError) as found,
    verification.reached(epath.Path("/run/checkpoints")),
  ):
    raise error
  assert str(found.value) == (
    "The checkpoints of /run cannot be reached: The bucket was not found."
  )
