"""State dicts in the form of `torch.save`, written without PyTorch."""

import collections
import io
import pickle
import sys
import types
import zipfile
from unittest import mock

import numpy as np


class _Storage:
  """The numbers of a tensor, kept outside of the pickle."""

  def __init__(self, key: int, array: np.ndarray):
    self.key, self.size = str(key), array.size


class _Tensor:
  """Pickled as a call of the function that PyTorch rebuilds tensors with."""

  def __init__(self, storage: _Storage, shape: tuple[int, ...], rebuild):
    strides, step = [], 1
    for side in reversed(shape):
      strides.append(step)
      step *= side
    self.call = (
      rebuild,
      (
        *(storage, 0, shape, tuple(reversed(strides))),
        *(False, collections.OrderedDict()),
      ),
    )

  def __reduce__(self):
    return self.call


class _Pickler(pickle.Pickler):
  kind: type

  def persistent_id(self, value):
    if isinstance(value, _Storage):
      return ("storage", self.kind, value.key, "cpu", value.size)
    return None


def save(path, tensors, **others) -> str:
  """Writes tensors under "model", beside other entries; returns the path."""
  package, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")

  def rebuild():
    raise NotImplementedError

  rebuild.__module__, rebuild.__qualname__ = (
    utils.__name__,
    "_rebuild_tensor_v2",
  )
  utils._rebuild_tensor_v2 = rebuild
  package._utils = utils
  package.FloatStorage = type("FloatStorage", (), {"__module__": "torch"})
  modules = {"torch": package, "torch._utils": utils}
  arrays = [np.asarray(x, np.float32) for x in tensors.values()]
  stream = io.BytesIO()
  with mock.patch.dict(sys.modules, modules):
    pickler = _Pickler(stream, 2)
    pickler.kind = package.FloatStorage
    state = {
      name: _Tensor(_Storage(key, array), array.shape, rebuild)
      for key, (name, array) in enumerate(zip(tensors, arrays, strict=True))
    }
    pickler.dump({"model": state, **others})
  with zipfile.ZipFile(path, "w") as archive:
    archive.writestr("archive/data.pkl", stream.getvalue())
    archive.writestr("archive/version", "3\n")
    for key, array in enumerate(arrays):
      archive.writestr(f"archive/data/{key}", array.tobytes())
  return str(path)
