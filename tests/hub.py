"""A stand-in for the hub on the loopback, by its documented interface.

As the hub does, it answers 401 for a repository that is not there, tells what
is wrong in X-Error-Code, and sends weights from another place by a redirect.
Large files are uploaded before the commit that makes them appear, to another
place too.
"""

import base64
import hashlib
import http.server
import json
import re
import threading


class Hub:
  """Repositories by name; a context manager.

  Attributes:
    repositories: Name -> {revision -> {file -> bytes}}; the names of datasets
      begin with 'datasets/'.
    gated: Names of those that nobody may read.
    requests: Paths asked for, in order.
    private: Names of repositories for their owner's eyes; asking for a
      repository that is there, private or not, changes nothing of it.
    owners: Token -> the owner in whose place it may write.
    broken: True to answer everything with a 503.
    stores_nothing: True to answer uploads of large files with a 500.
    unreadable: Names of files that are answered with a 500.
  """

  def __init__(self, repositories):
    self.repositories = repositories
    self.gated = set()
    self.requests = []
    self.broken = False
    self.private = set()
    self.owners = {}
    self.stored = {}
    self.stores_nothing = False
    self.unreadable = set()
    handler = type("Handler", (_Handler,), {"hub": self})
    self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)

  @property
  def endpoint(self):
    return f"http://127.0.0.1:{self._server.server_port}"

  def __enter__(self):
    threading.Thread(target=self._server.serve_forever, daemon=True).start()
    return self

  def __exit__(self, *unused):
    self._server.shutdown()
    self._server.server_close()

  def commit(self, name, revision):
    """The commit of a branch, or None; a commit is its own."""
    for branch, files in self.repositories[name].items():
      made = hashlib.sha1(f"{name}{branch}{sorted(files)}".encode()).hexdigest()
      if revision in (branch, made):
        return made, files
    return None, None


class _Handler(http.server.BaseHTTPRequestHandler):
  protocol_version = "HTTP/1.1"

  def do_HEAD(self):
    self.do_GET()

  def do_GET(self):
    self.hub.requests.append(self.path)
    path = self.path.partition("?")[0]
    if self.hub.broken:
      return self._refuse(503, "", "down")
    # Models have no folder of their own outside of the interface.
    path = path.replace("/api/models/", "/api/")
    name = r"((?:datasets/)?[^/]+/[^/]+)"
    if match := re.fullmatch(rf"/api/{name}(?:/revision/(.+))?", path):
      return self._info(match[1], match[2] or "main")
    if match := re.fullmatch(rf"/api/{name}/tree/([^/]+)/?", path):
      return self._tree(match[1], match[2])
    if match := re.fullmatch(rf"/{name}/resolve/([^/]+)/(.+)", path):
      return self._file(match[1], match[2], match[3])
    if match := re.fullmatch(rf"/elsewhere/{name}/([^/]+)/(.+)", path):
      _, files = self.hub.commit(match[1], match[2])
      return self._send(files[match[3]])
    return self._refuse(404, "", f"no page {path}")

  def do_POST(self):
    body = self._body()
    if self.hub.broken:
      return self._refuse(503, "", "down")
    if self.path == "/api/repos/create":
      return self._create(json.loads(body))
    if self.path == "/api/validate-yaml":
      return self._json({"errors": [], "warnings": []})
    if match := re.fullmatch(
      r"/api/models/([^/]+/[^/]+)/preupload/main", self.path
    ):
      return self._sort(json.loads(body)["files"])
    if match := re.fullmatch(
      r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch", self.path
    ):
      return self._places(json.loads(body)["objects"])
    if match := re.fullmatch(
      r"/api/models/([^/]+/[^/]+)/commit/main", self.path
    ):
      return self._commit(match[1], body)
    return self._refuse(404, "", f"no page {self.path}")

  def do_PUT(self):
    body = self._body()
    if self.hub.stores_nothing:
      return self._refuse(500, "", "Internal Error")
    digest = hashlib.sha256(body).hexdigest()
    assert self.path == f"/store/{digest}"
    self.hub.stored[digest] = body
    return self._send(b"")

  def _body(self):
    return self.rfile.read(int(self.headers.get("Content-Length") or 0))

  def _may_write(self, owner):
    token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
    if token not in self.hub.owners:
      self._refuse(401, "", "Invalid username or password.")
    elif self.hub.owners[token] != owner:
      self._refuse(403, "", f"You don't have the rights to write in {owner}.")
    else:
      return True
    return False

  def _create(self, asked):
    name = f"{asked['organization']}/{asked['name']}"
    url = f"{self.hub.endpoint}/{name}"
    if not self._may_write(asked["organization"]):
      return None
    if name in self.hub.repositories:
      answer = {"error": "You already created this model repo", "url": url}
      return self._json(answer, code=409)
    self.hub.repositories[name] = {"main": {".gitattributes": b""}}
    if asked.get("visibility") == "private":
      self.hub.private.add(name)
    return self._json({"url": url, "name": name})

  def _sort(self, files):
    modes = [
      {
        "path": file["path"],
        "uploadMode": "lfs"
        if file["path"].endswith("safetensors")
        else "regular",
        "shouldIgnore": False,
      }
      for file in files
    ]
    return self._json({"files": modes})

  def _places(self, objects):
    elsewhere = self.hub.endpoint.replace("127.0.0.1", "localhost")
    return self._json(
      {
        "transfer": "basic",
        "objects": [
          one
          | {"actions": {"upload": {"href": f"{elsewhere}/store/{one['oid']}"}}}
          for one in objects
        ],
      }
    )

  def _commit(self, name, body):
    if not self._may_write(name.partition("/")[0]):
      return None
    files = {}
    for line in map(json.loads, body.decode().splitlines()):
      value = line["value"]
      if line["key"] == "file":
        files[value["path"]] = base64.b64decode(value["content"])
      elif line["key"] == "lfsFile":
        files[value["path"]] = self.hub.stored[value["oid"]]
    self.hub.repositories[name]["main"].update(files)
    commit, _ = self.hub.commit(name, "main")
    url = f"{self.hub.endpoint}/{name}/commit/{commit}"
    return self._json({"commitUrl": url, "commitOid": commit, "success": True})

  def log_message(self, *unused):
    pass

  def _found(self, name, revision):
    if name not in self.hub.repositories:
      self._refuse(401, "RepoNotFound", "Invalid username or password.")
    elif name in self.hub.gated:
      self._refuse(403, "GatedRepo", "Access to the model is restricted.")
    else:
      commit, files = self.hub.commit(name, revision)
      if commit is not None:
        return commit, files
      self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
    return None, None

  def _info(self, name, revision):
    commit, files = self._found(name, revision)
    if commit:
      siblings = [
        {"rfilename": file, "size": len(content)}
        for file, content in files.items()
      ]
      self._json(
        {
          "id": name,
          "sha": commit,
          "private": name in self.hub.private,
          "siblings": siblings,
        }
      )

  def _tree(self, name, revision):
    commit, files = self._found(name, revision)
    if commit:
      self._json(
        [
          {
            "type": "file",
            "path": file,
            "size": len(content),
            "oid": hashlib.sha1(content).hexdigest(),
          }
          for file, content in files.items()
        ]
      )

  def _file(self, name, revision, file):
    commit, files = self._found(name, revision)
    if not commit:
      return None
    if file not in files:
      return self._refuse(404, "EntryNotFound", f"no {file}")
    if file in self.hub.unreadable:
      return self._refuse(500, "", "Internal Error")
    headers = {
      "X-Repo-Commit": commit,
      "ETag": f'"{hashlib.sha1(files[file]).hexdigest()}"',
      "X-Linked-Size": str(len(files[file])),
    }
    if file.endswith(".json"):
      return self._send(files[file], headers)
    headers["X-Linked-ETag"] = headers["ETag"]
    # Another host's, as the hub's are.
    elsewhere = self.hub.endpoint.replace("127.0.0.1", "localhost")
    headers["Location"] = f"{elsewhere}/elsewhere/{name}/{commit}/{file}"
    return self._send(b"", headers, code=302)

  def _refuse(self, code, error, message):
    headers = {"X-Error-Code": error, "X-Error-Message": message}
    self._send(json.dumps({"error": message}).encode(), headers, code=code)

  def _json(self, value, code=200):
    headers = {"Content-Type": "application/json"}
    self._send(json.dumps(value).encode(), headers, code=code)

  def _send(self, body, headers=None, code=200):
    self.send_response(code)
    for name, value in (headers or {}).items():
      self.send_header(name, value)
    self.send_header("Content-Length", str(len(body)))
    self.end_headers()
    if self.command != "HEAD":
      self.wfile.write(body)
