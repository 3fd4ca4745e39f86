"""A stand-in for Google Cloud Storage: its JSON interface, kept in memory.

It has what the storage has and no more: whole objects under names, listed by
prefix; each write is a new generation and may be made conditional. Nothing can
be appended to or renamed, and there are no directories.
"""

import base64
import contextlib
import dataclasses
import datetime
import hashlib
import json
import re
import threading
import urllib.parse
from collections import Counter, defaultdict
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BUCKET = "stand-in"


@dataclasses.dataclass(frozen=True)
class Object:
  """What a name holds."""

  data: bytes
  generation: int
  updated: datetime.datetime

  def described(self, name: str) -> dict[str, Any]:
    when = self.updated.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
      "kind": "storage#object",
      "name": name,
      "bucket": BUCKET,
      "generation": str(self.generation),
      "metageneration": "1",
      "size": str(len(self.data)),
      "md5Hash": base64.b64encode(hashlib.md5(self.data).digest()).decode(),
      "updated": when,
      "timeCreated": when,
    }


class Server:
  """The storage, on a port of this machine, as a context.

  Attributes:
    url: of the interface.
    objects: by name; a test may look and damage.
    counts: requests so far, as ("write", name) and so on.
    uploads: the parts of objects that are not whole yet.
    refused: tells by method and name which requests get an error.
  """

  def __init__(self) -> None:
    self.objects: dict[str, Object] = {}
    self.counts: Counter[tuple[str, str]] = Counter()
    self.refused: Callable[[str, str], bool] = lambda kind, name: False
    self.uploads: dict[str, list[bytes]] = defaultdict(list)
    self._lock = threading.Lock()
    self._generation = 0
    handler = type("Handler", (_Handler,), {"store": self})
    self._http = ThreadingHTTPServer(("localhost", 0), handler)
    self._http.daemon_threads = True
    self.url = f"http://localhost:{self._http.server_port}"
    self._thread = threading.Thread(target=self._http.serve_forever)

  def __enter__(self) -> "Server":
    self._thread.start()
    return self

  def __exit__(self, *unused: object) -> None:
    self._http.shutdown()
    self._http.server_close()
    self._thread.join()

  def names(self, prefix: str = "") -> list[str]:
    with self._lock:
      return sorted(n for n in self.objects if n.startswith(prefix))

  def read(self, name: str) -> bytes:
    return self.objects[name].data

  def get(self, name: str) -> Object | None:
    return self.objects.get(name)

  def put(
    self, name: str, data: bytes, generation: int | None = None
  ) -> Object | None:
    """Writes an object, if the present generation is as wanted (0: none)."""
    with self._lock:
      present = self.objects.get(name)
      if generation is not None and generation != (
        present.generation if present else 0
      ):
        return None
      self._generation += 1
      now = datetime.datetime.now(datetime.UTC)
      made = self.objects[name] = Object(data, self._generation, now)
      return made

  def remove(self, name: str) -> bool:
    with self._lock:
      return self.objects.pop(name, None) is not None


class _Handler(BaseHTTPRequestHandler):
  """Requests of the JSON interface, as its clients send them."""

  store: Server
  protocol_version = "HTTP/1.1"
  disable_nagle_algorithm = True

  def handle(self) -> None:
    with contextlib.suppress(ConnectionError):  # A client that was killed.
      super().handle()

  def log_message(self, *unused: object) -> None:
    pass

  def do_GET(self) -> None:
    if self._name is None:
      self._list()
      return
    if self._is_refused("read"):
      return
    found = self.store.get(self._name)
    if found is None:
      self._answer(404, {"error": {"code": 404, "message": "No such object"}})
      return
    if self._query.get("ifGenerationNotMatch") == str(found.generation):
      self._answer(304)
      return
    wanted = self._query.get("ifGenerationMatch", str(found.generation))
    if wanted != str(found.generation):
      self._answer(412, {"error": {"code": 412, "message": "Generation"}})
      return
    if self._query.get("alt") != "media":
      self._answer(200, found.described(self._name))
      return
    data, code, headers = found.data, 200, {}
    span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
    if span:
      first = int(span[1])
      last = min(int(span[2] or len(data)), len(data) - 1)
      headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
      data, code = data[first : last + 1], 206
      if not data:
        self._answer(416)
        return
    headers["x-goog-generation"] = str(found.generation)
    self._answer(code, data, headers)

  def _list(self) -> None:
    if not self._path.endswith("/o"):
      self._answer(200, {"kind": "storage#bucket", "name": BUCKET})
      return
    prefix = self._query.get("prefix", "")
    delimiter = self._query.get("delimiter")
    if self._is_refused("list", prefix):
      return
    items, prefixes = [], set()
    for name in self.store.names(prefix):
      rest = name[len(prefix) :]
      if delimiter and delimiter in rest:
        prefixes.add(prefix + rest.split(delimiter)[0] + delimiter)
        continue
      if not self._query.get("startOffset", "") <= name:
        continue
      if name >= self._query.get("endOffset", "\U0010ffff"):
        continue
      found = self.store.get(name)
      if found:
        items.append(found.described(name))
    listing = {"kind": "storage#objects", "items": items}
    self._answer(200, {**listing, "prefixes": sorted(prefixes)})

  def do_POST(self) -> None:
    body = self._body()
    copied = re.fullmatch(r"(.+)/(?:copyTo|rewriteTo)/b/[^/]+/o/(.+)", self._at)
    if copied:
      self._copy(*map(urllib.parse.unquote, copied.groups()))
      return
    if "upload_id" in self._query:
      self._take_part(body)
      return
    if self._query["uploadType"] == "resumable":
      name = self._query.get("name") or json.loads(body)["name"]
      at = f"{self.store.url}{self._path}?upload_id={_quoted(name)}"
      self._answer(200, b"", {"Location": at})
      return
    self._write(self._query["name"], body)

  def _take_part(self, body: bytes) -> None:
    """Of an upload, which becomes an object with its last part."""
    name = self._query["upload_id"]
    total = self.headers.get("Content-Range", "").rpartition("/")[2]
    parts = self.store.uploads[name]
    parts.append(body)
    if total == "*":
      received = sum(map(len, parts))
      self._answer(308, b"", {"Range": f"bytes=0-{received - 1}"})
      return
    self._write(name, b"".join(self.store.uploads.pop(name)))

  def _write(self, name: str, data: bytes) -> None:
    if self._is_refused("write", name):
      return
    generation = self._query.get("ifGenerationMatch")
    made = self.store.put(
      name, data, None if generation is None else int(generation)
    )
    if made is None:
      self._answer(412, {"error": {"code": 412, "message": "Generation"}})
      return
    self._answer(200, made.described(name))

  def _copy(self, source: str, target: str) -> None:
    found = self.store.get(source)
    if found is None:
      self._answer(404, {"error": {"code": 404, "message": "No such object"}})
      return
    if self._is_refused("write", target):
      return
    made = self.store.put(target, found.data).described(target)
    self._answer(200, {**made, "done": True, "resource": made})

  def do_DELETE(self) -> None:
    if self._is_refused("delete"):
      return
    if self.store.remove(self._name):
      self._answer(204)
    else:
      self._answer(404, {"error": {"code": 404, "message": "No such object"}})

  @property
  def _path(self) -> str:
    return urllib.parse.urlsplit(self.path).path

  @property
  def _query(self) -> dict[str, str]:
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))

  @property
  def _at(self) -> str:
    """The name in a path, as it is quoted there; "" if it has none."""
    return self._path.partition(f"/b/{BUCKET}/o/")[2]

  @property
  def _name(self) -> str | None:
    return urllib.parse.unquote(self._at) or None

  def _body(self) -> bytes:
    return self.rfile.read(int(self.headers.get("Content-Length") or 0))

  def _is_refused(self, kind: str, name: str | None = None) -> bool:
    name = self._name if name is None else name
    self.store.counts[kind, name] += 1
    refused = self.store.refused(kind, name)
    if refused:
      self._answer(403, {"error": {"code": 403, "message": "Not today."}})
    return refused

  def _answer(
    self,
    code: int,
    content: bytes | dict[str, Any] = b"",
    headers: dict[str, str] | None = None,
  ) -> None:
    if isinstance(content, dict):
      content = json.dumps(content).encode()
      headers = {"Content-Type": "application/json", **(headers or {})}
    self.send_response(code)
    for name, value in (headers or {}).items():
      self.send_header(name, value)
    if code not in (204, 304):
      self.send_header("Content-Length", str(len(content)))
    self.end_headers()
    if code not in (204, 304):
      self.wfile.write(content)


def _quoted(name: str) -> str:
  return urllib.parse.quote(name, safe="")
