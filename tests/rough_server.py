"""A stand-in for a bucket's HTTPS address on the loopback, and for its moods.

As Google Cloud Storage does, it answers ranges, and tells the MD5 in
X-Goog-Hash and a tag that changes with the file.
"""

import base64
import hashlib
import http.server
import re
import threading
import time


class RoughServer:
  """Files by path; a context manager.

  Attributes:
    files: Path -> bytes.
    requests: (path, value of the header Range or None), in order.
    cut_after: Bytes of a body after which the connection is closed; None:
      never.
    cuts: Number of answers that are cut.
    after_cut: Files that replace others once an answer is cut.
    has_ranges: False to answer every request with the whole file.
    length: Length that is announced, in place of the true one.
    md5: Digest that is announced, in place of the true one.
    status: Status of all answers, such as 503; None: as is true.
    refusals: Number of answers that have the status, if not all.
    redirects: Path -> path where it is found.
    silent: True to accept connections and say nothing.
  """

  def __init__(self, files):
    self.files = dict(files)
    self.requests = []
    self.cut_after = None
    self.cuts = 0
    self.after_cut = {}
    self.has_ranges = True
    self.length = None
    self.md5 = None
    self.status = None
    self.refusals = None
    self.redirects = {}
    self.silent = False
    handler = type("Handler", (_Handler,), {"rough": self})
    self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    self._server.daemon_threads = True

  @property
  def url(self):
    return f"http://127.0.0.1:{self._server.server_port}"

  def __enter__(self):
    threading.Thread(
      target=self._server.serve_forever, args=(0.02,), daemon=True
    ).start()
    return self

  def __exit__(self, *unused):
    self._server.shutdown()
    self._server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
  protocol_version = "HTTP/1.1"

  def do_GET(self):
    rough, path = self.rough, self.path.lstrip("/")
    rough.requests.append((path, self.headers.get("Range")))
    if rough.silent:
      time.sleep(3)
      return
    if rough.status is not None and rough.refusals != 0:
      if rough.refusals is not None:
        rough.refusals -= 1
      return self._send(rough.status, b"no", {})
    if path in rough.redirects:
      place = f"{rough.url}/{rough.redirects[path]}"
      return self._send(302, b"", {"Location": place})
    if path not in rough.files:
      return self._send(404, b"<Error>NoSuchKey</Error>", {})
    body = rough.files[path]
    md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
    headers = {"ETag": f'"{md5}"', "X-Goog-Hash": f"md5={rough.md5 or md5}"}
    asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
    is_same = self.headers.get("If-Range", headers["ETag"]) == headers["ETag"]
    if asked and rough.has_ranges and is_same:
      start = int(asked[1])
      headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
      return self._send(206, body[start:], headers)
    return self._send(200, body, headers)

  def _send(self, code, body, headers):
    self.send_response(code)
    for name, value in headers.items():
      self.send_header(name, value)
    length = self.rough.length or len(body)
    self.send_header("Content-Length", str(length))
    self.end_headers()
    cut = self.rough.cut_after
    if cut is not None and self.rough.cuts > 0 and len(body) > cut:
      self.rough.cuts -= 1
      self.rough.files.update(self.rough.after_cut)
      body = body[:cut]
    self.wfile.write(body)
    if len(body) < length:
      self.close_connection = True

  def log_message(self, *unused):
    pass
