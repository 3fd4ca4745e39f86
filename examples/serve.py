"""Serves a classifier over HTTP, with the network as StableHLO.

  python -m vit_jax.convert runs/photos photos.stablehlo
  python examples/serve.py --checkpoint=runs/photos --network=photos.stablehlo
  curl --data-binary @cat.jpg localhost:8000/classify

The checkpoint tells the names of the classes and how images are prepared, which
is as in evaluations, to the bit; the network is compiled once, at the start.
POST /classify takes the content of one image file and answers

  {"predictions": [{"label": 0, "name": "cat", "probability": 0.98}, ...]}

or {"error": SENTENCE}, with the status 400 for what is no image and 413 for a
file of more than 32 MiB. GET /health answers as soon as the network is ready.

An example to start from: it has neither encryption nor users, and listens to
this machine alone unless --host says otherwise.
"""

import argparse
import http.server
import io
import json
import pathlib
import socket
import sys
from typing import Any

import jax
import numpy as np
from jax import export
from PIL import Image, UnidentifiedImageError

import vit_jax
from vit_jax.errors import UserError

_MAX_BYTES = 32 * 2**20
_MAX_DISCARDED = 8 * _MAX_BYTES
_CHUNK = 2**20
_TOP = 5
_SECONDS = 30  # A client may take between two packets.


class Model:
  """Content of image files to names and probabilities."""

  def __init__(self, checkpoint: str, network: str):
    self._classifier = vit_jax.Classifier(checkpoint)
    self._transform = vit_jax.load_transform(checkpoint)
    program = _program(network)
    softmax = self._classifier.activation == "softmax"
    activation = jax.nn.softmax if softmax else jax.nn.sigmoid
    side = self._transform.image_size
    images = jax.ShapeDtypeStruct((1, side, side, 3), np.uint8)
    self._probabilities = (
      jax.jit(lambda images: activation(program.call(images)))
      .lower(images)
      .compile()
    )

  def predict(self, content: bytes) -> list[dict[str, Any]]:
    """The most probable classes of one image.

    Raises:
      ValueError: It is no image; a sentence.
    """
    try:
      with Image.open(io.BytesIO(content)) as image:
        pixels = self._transform(image)
    except (
      UnidentifiedImageError,
      Image.DecompressionBombError,
      OSError,
      ValueError,
      SyntaxError,
    ):
      raise ValueError("This is no image, or a damaged one.") from None
    probabilities = np.asarray(self._probabilities(pixels[None]))[0]
    best = self._classifier.best(probabilities, _TOP)
    return [prediction._asdict() for prediction in best]


def _program(path: str) -> export.Exported:
  """Reads a network that `vit_jax.convert` wrote for classification."""
  try:
    content = pathlib.Path(path).read_bytes()
  except OSError as error:
    raise UserError(
      f"--network={path} cannot be read ({error.strerror}); give the .stablehlo"
      " file of a classifier, as `python -m vit_jax.convert` writes it."
    ) from None
  try:
    return export.deserialize(bytearray(content))
  except Exception:  # Of many kinds, by where the damage is.
    raise UserError(
      f"--network={path} is damaged or no StableHLO file; write it again, by"
      " `python -m vit_jax.convert`."
    ) from None


class Handler(http.server.BaseHTTPRequestHandler):
  """Answers requests; `model` is set below."""

  protocol_version = "HTTP/1.1"
  timeout = _SECONDS
  model: Model

  def do_GET(self) -> None:
    if self.path == "/health":
      self._answer(200, {"status": "ready"})
    else:
      self._answer(404, {"error": "There are GET /health and POST /classify."})

  def do_POST(self) -> None:
    # What is not read of a body would be taken for the next request.
    self.close_connection = True
    length = self.headers.get("Content-Length", "")
    if self.path != "/classify":
      self._answer(404, {"error": "There are GET /health and POST /classify."})
    elif not length.isdecimal():
      self._answer(411, {"error": "Content-Length is missing."})
    elif int(length) > _MAX_BYTES:
      self._answer(413, {"error": "The file is larger than 32 MiB."})
      # A client that still sends would not read the answer.
      for _ in range(min(int(length) // _CHUNK, _MAX_DISCARDED // _CHUNK)):
        self.rfile.read(_CHUNK)
    else:
      content = self.rfile.read(int(length))
      try:
        self._answer(200, {"predictions": self.model.predict(content)})
      except ValueError as error:
        self._answer(400, {"error": str(error)})

  def _answer(self, status: int, value: dict[str, Any]) -> None:
    body = json.dumps(value).encode()
    self.send_response(status)
    self.send_header("Content-Type", "application/json")
    self.send_header("Content-Length", str(len(body)))
    self.end_headers()
    self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
  daemon_threads = True
  request_queue_size = socket.SOMAXCONN


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--checkpoint", required=True, help="as of vit_jax.load")
  parser.add_argument("--network", required=True, help="its .stablehlo file")
  parser.add_argument("--host", default="127.0.0.1")
  parser.add_argument("--port", type=int, default=8000, help="0: any")
  flags = parser.parse_args()
  try:
    Handler.model = Model(flags.checkpoint, flags.network)
  except UserError as error:
    sys.exit(f"error: {error}")
  with Server((flags.host, flags.port), Handler) as server:
    host, port = server.server_address[:2]
    print(f"serving {flags.network} at http://{host}:{port}", flush=True)
    try:
      server.serve_forever()
    except KeyboardInterrupt:
      print("stopped")


if __name__ == "__main__":
  main()
