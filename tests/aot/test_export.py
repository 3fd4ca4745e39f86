"""An exported network gives the logits of the network that it was made of."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest

from vit_jax.aot import export
from vit_jax.config import named_sections, schema
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.weights import contract

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


TOWERS = named_sections.section(
  "model",
  name="two_towers",
  variant="Ti/4",
  image_size=8,
  image={"width": 32, "depth": 1, "num_heads": 2, "mlp_dim": 64},
  text={
    **{"width": 24, "depth": 2, "num_heads": 2, "mlp_dim": 48},
    **{"vocab_size": 50, "length": 6, "causal": True, "pool": "eot"},
  },
  embedding_size=16,
  image_projection="linear",
  bias_init=-3.0,
)


@pytest.fixture(scope="module")
def towers():
  """A network of two towers, its parameters, images and texts."""
  network = build.create(TOWERS, num_classes=None)
  rng = np.random.default_rng(0)
  images = rng.integers(0, 256, (5, 8, 8, 3), np.uint8)
  texts = rng.integers(0, 50, (4, 6), np.int32)
  params = network.init(jax.random.key(0), images, texts)["params"]
  return network, params, images, texts


def test_each_tower_is_a_function_of_any_number_of_examples(towers):
  network, params, images, texts = towers
  want = network.apply({"params": params}, images, texts)
  programs = export.export_towers(TOWERS, params)
  for tower, inputs in (("image", images), ("text", texts)):
    exported = jax.export.deserialize(bytearray(programs[tower]))
    for rows in (slice(0, 1), slice(1, None)):
      np.testing.assert_allclose(
        exported.call(inputs[rows]),
        want[f"{tower}_embedding"][rows],
        rtol=1e-5,
        atol=1e-6,
      )


def test_a_directory_has_all_that_makes_logits(towers, tmp_path):
  network, params, images, texts = towers
  weights = contract.Weights(
    path="towers", model=TOWERS, params=params, preprocess="decode|resize"
  )
  place = tmp_path / "deep" / "towers.stablehlo"
  export.write(
    place, weights, dtype="float32", tokenizer={"tokenizer.json": b"{}"}
  )
  image, text = (
    jax.export.deserialize(
      bytearray((place / f"{tower}.stablehlo").read_bytes())
    )
    for tower in ("image", "text")
  )
  described = json.loads((place / "towers.json").read_text())
  logits = described["scale"] * image.call(images) @ text.call(texts).T
  logits += described["bias"]
  want = network.apply({"params": params}, images, texts)["logits"]
  np.testing.assert_allclose(logits, want, rtol=1e-5, atol=1e-5)
  assert described["text_length"] == 6 and described["image_size"] == 8
  assert described["preprocess"] == "decode|resize"
  assert (place / "tokenizer" / "tokenizer.json").read_bytes() == b"{}"
  assert [path.name for path in place.parent.iterdir()] == [place.name]


def test_only_the_towers_own_parameters_are_in_its_program(towers):
  _, params, _, _ = towers
  programs = export.export_towers(TOWERS, params)
  for tower in ("image", "text"):
    parts = [params[name] for name in params if name.startswith(tower)]
    num_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(parts))
    assert num_bytes < len(programs[tower]) < num_bytes + 100_000


def test_parameters_beyond_the_format_are_refused(monkeypatch):
  _, params, _ = built(MODELS["cls"])
  monkeypatch.setattr(export, "_MAX_PARAMETER_BYTES", 1000)
  with pytest.raises(UserError, match="--dtype=bfloat16"):
    export.export(MODELS["cls"], params)
