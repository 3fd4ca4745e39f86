"""gs:// paths of etils on the stand-in storage, in place of gcsfs.

etils asks fsspec for a file system named 'gcs'; this is one, which does what
the storage can do and refuses the rest.
"""

import http.client
import io
import json
import types
import urllib.parse
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import fsspec


class StandIn(fsspec.AbstractFileSystem):
  """Files of the stand-in, named BUCKET/NAME as in gcsfs."""

  protocol = ("gcs", "gs")
  url = ""  # Of the storage.
  cachable = True
  tries = 3  # Of a request that may do better the next time.

  @property
  def base(self) -> str:
    return f"{self.url}/storage/v1/"

  def call(
    self,
    method: str,
    path: str,
    *names: str,
    json_out: bool = False,
    headers: dict[str, str] | None = None,
    data: bytes = b"",
    timeout: float = 20.0,
    **query: str,
  ) -> Any:
    """A request of the interface, as gcsfs's method of that name makes it."""
    path = path if path.startswith("http") else self.base + path
    quoted = (urllib.parse.quote(name, safe="") for name in names)
    path = urllib.parse.urlsplit(path.format(*quoted)).path
    answer, content = self._request(method, path, query, data, headers, timeout)
    return json.loads(content) if json_out else (answer, content)

  def _ask(
    self, method: str, path: str, query: dict[str, str], body: bytes = b""
  ) -> bytes:
    return self._request(method, path, query, body, {}, 20)[1]

  def _request(
    self,
    method: str,
    path: str,
    query: dict[str, str],
    body: bytes,
    headers: dict[str, str] | None,
    timeout: float,
  ) -> tuple[http.client.HTTPMessage, bytes]:
    for left in reversed(range(self.tries)):
      address = urllib.parse.urlsplit(self.url).netloc
      connection = http.client.HTTPConnection(address, timeout=timeout)
      try:
        target = f"{path}?{urllib.parse.urlencode(query)}"
        connection.request(method, target, body, headers or {})
        response = connection.getresponse()
        content = response.read()
      except (ConnectionError, http.client.HTTPException):
        if not left:
          raise
        continue
      finally:
        connection.close()
      if not left or response.status not in (408, 429, 500, 502, 503, 504):
        break
    if response.status == 404:
      raise FileNotFoundError(path)
    if response.status == 412:
      raise FileExistsError(path)
    if response.status >= 400:
      message = json.loads(content)["error"]["message"]
      # gcsfs has an error of its own for most others, which is no OSError.
      known = OSError if response.status in (403, 502) else HttpError
      raise known(message)
    return response.headers, content

  def _at(self, path: str) -> str:
    bucket, _, name = self._strip_protocol(path).partition("/")
    return f"/storage/v1/b/{bucket}/o/{urllib.parse.quote(name, safe='')}"

  def info(self, path: str, **unused: Any) -> dict[str, Any]:
    path = self._strip_protocol(path)
    if "/" in path:
      try:
        return _entry(path, json.loads(self._ask("GET", self._at(path), {})))
      except FileNotFoundError:
        if not self._children(path):
          raise
    return {"name": path, "size": 0, "type": "directory"}

  # The next four are as in gcsfs: some take errors for an absence.
  def exists(self, path: str, **unused: Any) -> bool:
    try:
      self.info(path)
    except FileNotFoundError:
      return False
    return True

  def isdir(self, path: str) -> bool:
    try:
      return self.info(path)["type"] == "directory"
    except OSError:
      return False

  def isfile(self, path: str) -> bool:
    try:
      return self.info(path)["type"] == "file"
    except Exception:
      return False

  def find(
    self,
    path: str,
    maxdepth: int | None = None,
    withdirs: bool = False,
    detail: bool = False,
    **unused: Any,
  ) -> Any:
    path = self._strip_protocol(path)
    found = {entry["name"]: entry for entry in self._below(path, maxdepth)}
    if found:
      found[path] = {"name": path, "size": 0, "type": "directory"}
    elif self.exists(path):
      found[path] = self.info(path)
    names = sorted(
      name for name in found if withdirs or found[name]["type"] == "file"
    )
    return {name: found[name] for name in names} if detail else names

  def _below(self, path: str, depth: int | None) -> Iterator[dict[str, Any]]:
    for entry in self._children(path):
      yield entry
      if entry["type"] == "directory" and depth != 1:
        yield from self._below(entry["name"], depth and depth - 1)

  def _children(self, path: str) -> list[dict[str, Any]]:
    bucket, _, name = path.partition("/")
    prefix = f"{name}/" if name else ""
    listing = json.loads(
      self._ask(
        "GET",
        f"/storage/v1/b/{bucket}/o",
        {"prefix": prefix, "delimiter": "/"},
      )
    )
    return [
      *(_entry(f"{bucket}/{item['name']}", item) for item in listing["items"]),
      *(
        {"name": f"{bucket}/{p[:-1]}", "size": 0, "type": "directory"}
        for p in listing["prefixes"]
      ),
    ]

  def ls(self, path: str, detail: bool = True, **unused: Any) -> list[Any]:
    path = self._strip_protocol(path)
    entries = self._children(path) or [self.info(path)]
    return entries if detail else [entry["name"] for entry in entries]

  def _open(self, path: str, mode: str = "rb", **unused: Any) -> io.IOBase:
    if mode == "rb":
      return io.BytesIO(self._ask("GET", self._at(path), {"alt": "media"}))
    if mode == "wb":
      return _Upload(self, path)
    raise NotImplementedError(f"Objects cannot be opened with mode {mode!r}.")

  def upload(self, path: str, data: bytes) -> None:
    bucket, _, name = self._strip_protocol(path).partition("/")
    query = {"uploadType": "media", "name": name}
    self._ask("POST", f"/upload/storage/v1/b/{bucket}/o", query, data)

  def cp_file(self, source: str, target: str, **unused: Any) -> None:
    to = self._at(target).removeprefix("/storage/v1")
    self._ask("POST", f"{self._at(source)}/rewriteTo{to}", {})

  def mv(self, *unused: Any, **unused_too: Any) -> None:
    raise NotImplementedError("Objects cannot be renamed.")

  rename = move = mv

  def rm_file(self, path: str) -> None:
    self._ask("DELETE", self._at(path), {})

  def rm(self, path: str, recursive: bool = False, **unused: Any) -> None:
    names = self.find(path) if recursive else []
    for name in names or [self._strip_protocol(path)]:
      self.rm_file(name)

  def mkdir(self, path: str, *unused: Any, **unused_too: Any) -> None:
    """There are no directories to make."""

  makedirs = mkdir

  def rmdir(self, path: str) -> None:
    """There are none to remove."""


class HttpError(Exception):
  """The storage did not do what it was asked for."""


class _Upload(io.BytesIO):
  """Becomes an object when closed, whether or not all was written."""

  def __init__(self, files: StandIn, path: str):
    super().__init__()
    self._files = files
    self._path = path

  def close(self) -> None:
    if not self.closed:
      data = self.getvalue()
      super().close()
      self._files.upload(self._path, data)


def _entry(path: str, item: dict[str, Any]) -> dict[str, Any]:
  return {
    "name": path,
    "size": int(item["size"]),
    "type": "file",
    "mtime": datetime.fromisoformat(item["updated"]),
  }


def cloud_storage() -> types.ModuleType:
  """What Orbax takes from google.cloud.storage: what kind of bucket it is."""
  module = types.ModuleType("google.cloud.storage")
  flat = types.SimpleNamespace(hierarchical_namespace_enabled=False)
  client = types.SimpleNamespace(get_bucket=lambda name: flat)
  module.Client = lambda: client
  return module
