"""Reads wandb's offline files: LevelDB's log format around protobuf records."""

import json
import struct
from collections import defaultdict

_BLOCK = 32 * 1024
_HEADER = struct.Struct("<IHB")  # Checksum, length, kind.
_FULL, _LAST = 1, 4


def read(path):
  """The records of a file by their type, such as 'history' and 'exit'."""
  from wandb.proto import wandb_internal_pb2

  data = path.read_bytes()
  found, content = defaultdict(list), b""
  at = 7  # After the file's own header.
  while at + _HEADER.size <= len(data):
    left = _BLOCK - at % _BLOCK
    if left < _HEADER.size:
      at += left
      continue
    _, length, kind = _HEADER.unpack_from(data, at)
    at += _HEADER.size
    content += data[at : at + length]
    at += length
    if kind in (_FULL, _LAST):
      record = wandb_internal_pb2.Record.FromString(content)
      content = b""
      name = record.WhichOneof("record_type")
      found[name].append(getattr(record, name))
  return found


def values(items):
  """The items of a record as a dictionary."""
  return {
    item.key or "/".join(item.nested_key): json.loads(item.value_json)
    for item in items
  }


def history(path):
  """(step, metrics) of every row that was logged."""
  rows = [values(row.item) for row in read(path)["history"]]
  return [
    (row.pop("step"), {k: v for k, v in row.items() if k[0] != "_"})
    for row in rows
  ]
