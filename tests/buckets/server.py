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
# In place of a status: the connection is closed.
CUT = -1


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
    refused: tells by method and name which requests get an error in place of
      being done: its status, or True for 403.
    lost: tells by method and name which requests get no answer, or an error,
      though they were done: the status of that error, or `CUT`.
  """

  def __init__(self) -> None:
    self.objects: dict[str, Object] = {}
    self.counts: Counter[tuple[str, str]] = Counter()
    self.uploads: dict[str, list[bytes]] = defaultdict(list)
    self.be_well()
    self._lock = threading.Lock()
    self._generation = 0
    handler = type("Handler", (_Handler,), {"store": self})
    self._http = ThreadingHTTPServer(("localhost", 0), handler)
    self._http.daemon_threads = True
    self.url = f"http://localhost:{self._http.server_port}"
    self._thread = threading.Thread(target=self._http.serve_forever)

  def be_well(self) -> None:
    """From here on, every request is done and answered."""
    self.refused: Callable[[str, str], int] = lambda kind, name: 0
    self.lost: Callable[[str, str], int] = lambda kind, name: 0

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
    self, name: str, data: bytes, query: dict[str, str] | None = None
  ) -> Object | int:
    """Writes an object; the status if a precondition of the query fails."""
    with self._lock:
      failed = unmet(query or {}, self.objects.get(name))
      if failed:
        return failed
      self._generation += 1
      now = datetime.datetime.now(datetime.UTC)
      made = self.objects[name] = Object(data, self._generation, now)
      return made

  def remove(self, name: str, query: dict[str, str] | None = None) -> int:
    """Removes an object; the status of the answer."""
    with self._lock:
      if name not in self.objects:
        return 404
      failed = unmet(query or {}, self.objects[name])
      if not failed:
        del self.objects[name]
      return failed or 204


def unmet(query: dict[str, str], present: Object | None) -> int:
  """Status for the precondition that an object does not meet, or 0.

  Generation 0 stands for an object that is not there. What is not to match and
  does is 304, Not Modified, as the storage's documentation has it for all
  methods.
  """
  generation = str(present.generation if present else 0)
  if query.get("ifGenerationMatch", generation) != generation:
    return 412
  if "ifGenerationNotMatch" not in query:
    return 0
  if present is None:
    return 412
  return 304 if query["ifGenerationNotMatch"] == generation else 0


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
      self._fail(404)
      return
    if failed := unmet(self._query, found):
      self._fail(failed)
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
      # What it was asked for at first holds for the object in the end.
      query = {**self._query, "upload_id": name}
      at = f"{self.store.url}{self._path}?{urllib.parse.urlencode(query)}"
      self._answer(200, b"", {"Location": at})
      return
    if self._query["uploadType"] == "multipart":
      described, data = _parts(self.headers["Content-Type"], body)
      self._write(described["name"], data)
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
    made = self.store.put(name, data, self._query)
    if isinstance(made, int):
      self._fail(made)
    elif not self._is_lost("write", name):
      self._answer(200, made.described(name))

  def _copy(self, source: str, target: str) -> None:
    found = self.store.get(source)
    if found is None:
      self._fail(404)
      return
    if self._is_refused("write", target):
      return
    made = self.store.put(target, found.data, self._query)
    if isinstance(made, int):
      self._fail(made)
      return
    described = made.described(target)
    self._answer(200, {**described, "done": True, "resource": described})

  def do_DELETE(self) -> None:
    if self._is_refused("delete"):
      return
    status = self.store.remove(self._name, self._query)
    if status == 204 and not self._is_lost("delete", self._name):
      self._answer(204)
    elif status != 204:
      self._fail(status)

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
    status = self.store.refused(kind, name)
    if status:
      self._fail(403 if status is True else status)
    return bool(status)

  def _is_lost(self, kind: str, name: str) -> bool:
    status = self.store.lost(kind, name)
    if status == CUT:
      self.close_connection = True
    elif status:
      self._fail(status)
    return bool(status)

  def _fail(self, status: int) -> None:
    message = {404: "No such object", 412: "Precondition"}
    said = {"code": status, "message": message.get(status, "Not today.")}
    self._answer(status, {"error": said})

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


def _parts(kind: str, body: bytes) -> tuple[dict[str, Any], bytes]:
  """Description and content of an upload in parts."""
  mark = re.search(r'boundary="?([^";]+)', kind)[1].encode()
  _, described, content, _ = re.split(rb"\r?\n?--" + re.escape(mark), body)
  described, content = (
    re.split(rb"\r?\n\r?\n", part, maxsplit=1)[1]
    for part in (described, content)
  )
  return json.loads(described), content
