"""PyTorch pickles, read as data: no function they name is called.

Interprets the opcodes that tensors are written with. A global is a name;
calling it gives a tensor, an ordered dictionary, or an `Opaque`.
"""

import dataclasses
import io
import pickletools
from collections.abc import Callable
from typing import Any

_MAX_OPCODES = 5_000_000
_MAX_STACK = 1_000_000
_MARK = object()

_TENSOR = "torch._utils _rebuild_tensor_v2"
_PARAMETER = "torch._utils _rebuild_parameter"
# Of PyTorch before 0.4.
_OLD_TENSOR = "torch._utils _rebuild_tensor"
_OLD_PARAMETER = "torch.nn.parameter Parameter"
_ORDERED = "collections OrderedDict"


class Module(dict):
  """The attributes of a TorchScript module, by name."""


class Unreadable(ValueError):
  """A pickle that holds more than data."""


@dataclasses.dataclass(frozen=True)
class Global:
  """The name of something in Python, which is not looked up."""

  name: str


@dataclasses.dataclass(frozen=True, eq=False)
class Opaque:
  """A placeholder for an unneeded object, which is not created."""

  name: str


@dataclasses.dataclass(frozen=True, eq=False)
class Storage:
  """The location of the numbers of one or more tensors.

  Attributes:
    kind: Name of its class.
    key: Name of the numbers in the file.
    size: How many they are.
    view: The first of them that are of this storage, and how many are; None
      if all are.
  """

  kind: str
  key: str
  size: int
  view: tuple[int, int] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Tensor:
  """A view of a storage; offset and strides are in elements."""

  storage: Storage
  offset: int
  shape: tuple[int, ...]
  strides: tuple[int, ...]


@dataclasses.dataclass(eq=False)
class Parameter:
  """A parameter of PyTorch before 0.4, which is given its tensor later."""

  tensor: Tensor | None = None


# Globals that may be called, giving an `Opaque`: settings stored with the
# weights and not needed here. Any other global is an error.
_INERT = frozenset(
  {
    "argparse Namespace",
    "torch device",
    "torch.serialization _get_layout",
    "pathlib PosixPath",
    "pathlib PurePosixPath",
    "pathlib WindowsPath",
    "pathlib._local PosixPath",
    "numpy dtype",
    "numpy ndarray",
    "numpy.core.multiarray scalar",
    "numpy._core.multiarray scalar",
    "numpy.core.multiarray _reconstruct",
    "numpy._core.multiarray _reconstruct",
    "_codecs encode",
    "collections defaultdict",
    "collections Counter",
    "collections deque",
    "builtins set",
    "__builtin__ set",
    "builtins frozenset",
    "__builtin__ frozenset",
    "yacs.config CfgNode",
    "omegaconf.dictconfig DictConfig",
    "omegaconf.listconfig ListConfig",
    "omegaconf.base ContainerMetadata",
    "omegaconf.base Metadata",
    "omegaconf.nodes AnyNode",
    "typing Any",
    "types SimpleNamespace",
    "datetime date",
    "datetime datetime",
    "datetime timedelta",
    "datetime timezone",
    "torch Size",
  }
)
# Prefix of the names of TorchScript modules, whose attributes are data.
_SCRIPT = "__torch__"
# Protocol 2 has the names of Python 2.
_BUILTINS = frozenset(
  {"dict", "list", "int", "float", "str", "bool", "long", "unicode"}
)


def read(
  data: bytes | io.BytesIO, storages: dict[str, Storage] | None = None
) -> Any:
  """Reads the value in a pickle.

  Args:
    data: The pickle, or a stream in which it begins at the current position,
      which is moved to its end.
    storages: Extended by the storages that the pickle refers to, by key.

  Raises:
    Unreadable: The pickle calls something other than data.
    ValueError: It is damaged.
  """
  return _Reader({} if storages is None else storages).read(data)


def unknown_kind(storage: Storage) -> Unreadable:
  """Returns an error about numbers of a kind that parameters do not have."""
  kind = storage.kind[:80].replace(" ", ".")
  return Unreadable(f"it holds numbers of the kind {kind}")


class _Reader:
  def __init__(self, storages: dict[str, Storage]) -> None:
    self.stack: list[Any] = []
    self.memo: dict[int, Any] = {}
    self.storages = storages

  def read(self, data: bytes | io.BytesIO) -> Any:
    try:
      for count, (opcode, value, _) in enumerate(pickletools.genops(data)):
        if count > _MAX_OPCODES or len(self.stack) > _MAX_STACK:
          raise Unreadable("it is longer than weights need")
        if opcode.name == "STOP":
          return self.stack.pop()
        self._step(opcode.name, value)
    except Unreadable:
      raise
    except (
      ValueError,
      IndexError,
      KeyError,
      TypeError,
      AttributeError,
      OverflowError,
      RecursionError,
    ) as error:
      raise ValueError(str(error)[:120] or type(error).__name__) from None
    raise ValueError("it has no end")

  def _step(self, name: str, value: Any) -> None:
    if name in _VALUES:
      self.stack.append(value)
    elif name in _CONSTANTS:
      self.stack.append(_CONSTANTS[name]())
    elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
      self.memo[value] = self.stack[-1]
    elif name == "MEMOIZE":
      self.memo[len(self.memo)] = self.stack[-1]
    elif name in ("GET", "BINGET", "LONG_BINGET"):
      self.stack.append(self.memo[value])
    elif name == "GLOBAL":
      self.stack.append(_global(value))
    elif name in _ACTS:
      _ACTS[name](self)
    elif name not in ("PROTO", "FRAME"):
      raise Unreadable(f"it has the opcode {name}")

  def last(self, count: int) -> list[Any]:
    """Pops that many items."""
    return [self.stack.pop() for _ in range(count)][::-1]

  def marked(self) -> list[Any]:
    """Pops the items above the last mark, and the mark."""
    items: list[Any] = []
    while (item := self.stack.pop()) is not _MARK:
      items.append(item)
    return items[::-1]

  def extend(self, items: list[Any]) -> None:
    target = self.stack[-1]
    if isinstance(target, list):
      target.extend(items)
    elif not isinstance(target, Opaque):
      raise Unreadable("items are added to something that has none")

  def put(self, items: list[Any]) -> None:
    """Sets keys, each followed by its value."""
    target = self.stack[-1]
    if isinstance(target, Opaque):
      return
    if not isinstance(target, dict):
      raise Unreadable("items are set in something that has none")
    for key, value in zip(items[::2], items[1::2], strict=True):
      # Hashing a nested tuple can take arbitrarily long.
      if not isinstance(key, (str, int, float)):
        key = Opaque("key")
      target[key] = value

  def push_dict(self) -> None:
    items = self.marked()
    self.stack.append({})
    self.put(items)

  def push_global(self) -> None:
    module, name = self.last(2)
    if not isinstance(name, str) or not isinstance(module, str):
      raise Unreadable("a global has no name")
    self.stack.append(_global(f"{module} {name}"))

  def build(self) -> None:
    state = self.stack.pop()
    if isinstance(self.stack[-1], Module) and isinstance(state, dict):
      self.stack[-1].update(state)
      return
    if isinstance(self.stack[-1], Parameter) and isinstance(state, tuple):
      tensors = [item for item in state[:1] if isinstance(item, Tensor)]
      self.stack[-1].tensor = next(iter(tensors), self.stack[-1].tensor)
      return
    # The attributes that torch sets, such as _metadata, are not needed.
    if not isinstance(self.stack[-1], (Opaque, dict)):
      raise Unreadable("it changes something that is not data")

  def reduce(self) -> None:
    self.stack.append(_call(*self.last(2)))

  def push_storage(self) -> None:
    match self.stack.pop():
      case ("storage", Global(kind), str(key), _, int(size), *views):
        storage = Storage(kind, key, size, _view(views))
      case _:
        raise Unreadable("it refers to something that is not a storage")
    known = self.storages.setdefault(key, storage)
    if (known.kind, known.size) != (kind, size):
      raise ValueError("the same numbers are of two kinds")
    self.stack.append(storage)


_VALUES = frozenset(
  "INT BININT BININT1 BININT2 LONG LONG1 LONG4 STRING BINSTRING"
  " SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8 UNICODE"
  " SHORT_BINUNICODE BINUNICODE BINUNICODE8 FLOAT BINFLOAT".split()
)
_CONSTANTS: dict[str, Callable[[], Any]] = {
  "NONE": lambda: None,
  "NEWTRUE": lambda: True,
  "NEWFALSE": lambda: False,
  "EMPTY_LIST": list,
  "EMPTY_TUPLE": tuple,
  "EMPTY_DICT": dict,
  "EMPTY_SET": lambda: Opaque("set"),
  "MARK": lambda: _MARK,
}
_ACTS: dict[str, Callable[[_Reader], Any]] = {
  "STACK_GLOBAL": _Reader.push_global,
  "POP": lambda reader: reader.last(1),
  "POP_MARK": _Reader.marked,
  "DUP": lambda reader: reader.stack.append(reader.stack[-1]),
  "TUPLE": lambda reader: reader.stack.append(tuple(reader.marked())),
  "TUPLE1": lambda reader: reader.stack.append(tuple(reader.last(1))),
  "TUPLE2": lambda reader: reader.stack.append(tuple(reader.last(2))),
  "TUPLE3": lambda reader: reader.stack.append(tuple(reader.last(3))),
  "LIST": lambda reader: reader.stack.append(reader.marked()),
  "DICT": _Reader.push_dict,
  "APPEND": lambda reader: reader.extend(reader.last(1)),
  "APPENDS": lambda reader: reader.extend(reader.marked()),
  "ADDITEMS": lambda reader: reader.extend(reader.marked()),
  "SETITEM": lambda reader: reader.put(reader.last(2)),
  "SETITEMS": lambda reader: reader.put(reader.marked()),
  "BUILD": _Reader.build,
  "REDUCE": _Reader.reduce,
  "NEWOBJ": _Reader.reduce,
  "BINPERSID": _Reader.push_storage,
}


def _global(name: str) -> Global:
  module, _, last = name.partition(" ")
  is_plain = module in ("builtins", "__builtin__") and last in _BUILTINS
  is_storage = module == "torch" and last.isidentifier()
  known = (_TENSOR, _OLD_TENSOR, _PARAMETER, _OLD_PARAMETER, _ORDERED)
  is_script = module.split(".")[0] == _SCRIPT
  if not (
    is_plain or is_storage or is_script or name in _INERT or name in known
  ):
    raise Unreadable(f"it names {name[:80].replace(' ', '.')}, no part of data")
  return Global(name)


def _call(called: Any, arguments: Any) -> Any:
  if not isinstance(called, Global) or not isinstance(arguments, tuple):
    raise Unreadable("it calls something that is not a name")
  if called.name == _ORDERED:
    if arguments:
      raise Unreadable("an OrderedDict is made of something")
    return {}
  if called.name == _PARAMETER:
    if not arguments or not isinstance(arguments[0], Tensor):
      raise Unreadable("a parameter is made of no tensor")
    return arguments[0]
  if called.name == _OLD_PARAMETER:
    tensors = [item for item in arguments[:1] if isinstance(item, Tensor)]
    return Parameter(*tensors)
  if called.name in (_TENSOR, _OLD_TENSOR):
    return _tensor(arguments)
  if called.name.startswith(_SCRIPT) and not arguments:
    return Module()
  if called.name in _INERT:
    return Opaque(called.name)
  raise Unreadable(f"it calls {called.name[:80].replace(' ', '.')}")


def _view(views: list[Any]) -> tuple[int, int] | None:
  """Returns what a view of a storage holds of it, of a reference's end."""
  match views:
    case [] | [None]:
      return None
    case [(_, int(first), int(count))]:
      return first, count
    case _:
      raise Unreadable("it refers to something that is not a storage")


def _tensor(arguments: tuple[Any, ...]) -> Tensor:
  match arguments:
    case (Storage() as storage, int(offset), tuple(shape), tuple(strides), *_):
      pass
    case _:
      raise Unreadable("a tensor is not made of a storage")
  counts = (offset, *shape, *strides)
  if (
    len(shape) != len(strides)
    or len(shape) > 16
    or not all(type(count) is int and 0 <= count < 2**40 for count in counts)
  ):
    raise Unreadable("a tensor has no shape")
  return Tensor(storage, offset, shape, strides)
