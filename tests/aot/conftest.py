"""The compiler of TPUs, where it is installed."""

import pytest

from vit_jax.aot import topology


@pytest.fixture
def libtpu():
  """The TPU's compiler, told that there is no TPU."""
  pytest.importorskip("libtpu")
  with pytest.MonkeyPatch.context() as patch:
    for name in ("JAX_PLATFORMS", "TPU_SKIP_MDS_QUERY"):
      patch.setenv(name, "")  # Put back after what is set here.
    topology.prepare_environment()
    # Flags of the CPU's compiler, of which the TPU's knows nothing.
    patch.delenv("XLA_FLAGS", raising=False)
    yield
