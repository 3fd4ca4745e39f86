"""An exported network gives the logits of the network that it was made of."""

import subprocess
import sys

import jax
import numpy as np
import pytest

from vit_jax.aot import export
from vit_jax.config import named_sections, schema
from vit_jax.errors import UserError
from vit_jax.models import build

MODEL = named_sections.section(
  "model",
  variant="Ti/4",
  width=32,
  depth=2,
  num_heads=2,
  mlp_dim=64,
  image_size=8,
)
MODELS = {
  "cls": MODEL.model_copy(update={"num_classes": 5}),
  "map": MODEL.model_copy(update={"num_classes": 5, "pool": "map"}),
  "scanned": MODEL.model_copy(
    update={"num_classes": 5, "pool": "gap", "scan_layers": True}
  ),
  "without a head": MODEL,
}
# All that a machine needs which runs the file. Our package is out of reach.
SCRIPT = """
import sys
import numpy as np
sys.modules["vit_jax"] = sys.modules["flax"] = None
from jax import export
path, inputs, outputs = sys.argv[1:]
network = export.deserialize(bytearray(open(path, "rb").read()))
images = np.load(inputs)
logits = [network.call(part) for part in (images[:3], images[3:])]
np.save(outputs, np.concatenate(logits))
"""


def built(model: schema.Model):
  network = build.create(model, num_classes=model.num_classes)
  images = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), np.uint8)
  params = network.init(jax.random.key(0), images)["params"]
  params = jax.tree.map(
    lambda x: x + 0.1 * jax.random.normal(jax.random.key(1), x.shape), params
  )
  return network, params, images


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_file_gives_equal_logits_for_any_batch_size(name):
  model = MODELS[name]
  network, params, images = built(model)
  data = bytearray(export.export(model, params))
  exported = jax.export.deserialize(data)
  want = network.apply({"params": params}, images)
  for start, stop in ((0, 1), (1, 5)):
    np.testing.assert_allclose(
      exported.call(images[start:stop]), want[start:stop], rtol=1e-5, atol=1e-5
    )
  assert tuple(exported.platforms) == ("cpu", "cuda", "tpu")


def test_a_file_runs_where_our_package_is_not(tmp_path):
  network, params, images = built(MODELS["cls"])
  files = [str(tmp_path / n) for n in ("a.stablehlo", "in.npy", "out.npy")]
  (tmp_path / "a.stablehlo").write_bytes(export.export(MODELS["cls"], params))
  np.save(files[1], images)
  command = [sys.executable, "-I", "-c", SCRIPT, *files]
  subprocess.run(command, check=True, cwd=tmp_path)
  logits = np.load(files[2])
  assert logits.dtype == np.float32
  np.testing.assert_allclose(
    logits, network.apply({"params": params}, images), rtol=1e-4, atol=1e-5
  )


def test_half_the_size_costs_some_precision():
  network, params, images = built(MODELS["cls"])
  whole = export.export(MODELS["cls"], params)
  half = export.export(MODELS["cls"], params, dtype="bfloat16")
  num_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
  assert len(whole) - len(half) == pytest.approx(num_bytes / 2, rel=0.1)
  logits = jax.export.deserialize(bytearray(half)).call(images)
  want = network.apply({"params": params}, images)
  assert logits.dtype == np.float32
  np.testing.assert_allclose(logits, want, atol=0.05 * np.abs(want).max())


def test_parameters_beyond_the_format_are_refused(monkeypatch):
  _, params, _ = built(MODELS["cls"])
  monkeypatch.setattr(export, "_MAX_PARAMETER_BYTES", 1000)
  with pytest.raises(UserError, match="--dtype=bfloat16"):
    export.export(MODELS["cls"], params)
