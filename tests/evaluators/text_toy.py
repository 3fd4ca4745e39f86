"""A toy of two towers: linear maps of pixels and of counts of bytes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.config import named_sections, schema

SIZE = 8
LENGTH = 48
DATA = f"generated:classes=5,size={SIZE},examples=200,captions=3"
SCALE = 7.0


@dataclasses.dataclass(frozen=True)
class State:
  eval_params: dict


def state(seed=0, width=12):
  """Random maps into 12 numbers."""
  rng = np.random.default_rng(seed)
  return State(
    {
      "image": rng.normal(size=(SIZE * SIZE * 3, width)).astype(np.float32),
      "text": rng.normal(size=(258, width)).astype(np.float32),
    }
  )


def outputs(params, batch):
  """The outputs of an objective with two towers."""
  found = {"scale": jnp.float32(SCALE)}
  if "image" in batch:
    pixels = batch["image"].astype(jnp.float32) / 255 - 0.5
    found["image_embedding"] = _unit(
      jnp.matmul(
        pixels.reshape(len(pixels), -1), params["image"], precision="highest"
      )
    )
  if "text" in batch:
    counts = jax.nn.one_hot(batch["text"], 258, dtype=jnp.int32).sum(1)
    counts = counts.at[:, 0].set(0).astype(jnp.float32)
    found["text_embedding"] = _unit(
      jnp.matmul(counts, params["text"], precision="highest")
    )
  return found


def _unit(x):
  return x / jnp.linalg.norm(x, axis=1, keepdims=True)


def embed_image(params, pixels):
  """The same for one image, in NumPy."""
  x = (pixels.astype(np.float64) / 255 - 0.5).ravel() @ params["image"]
  return x / np.linalg.norm(x)


def embed_text(params, text):
  """The same for one text, in NumPy."""
  ids = [byte + 1 for byte in text.encode()[: LENGTH - 1]] + [257]
  x = np.bincount(ids, minlength=258) @ params["text"].astype(np.float64)
  return x / np.linalg.norm(x)


def config(**evals):
  """A config whose model has a text tower of that length."""
  return schema.Config(
    model=named_sections.section(
      "model",
      name="two_towers",
      image_size=SIZE,
      text={"length": LENGTH, "vocab_size": 258},
    ),
    objective=named_sections.section("objective", name="contrastive"),
    train=schema.Train(dataset=DATA, batch_size=16, tokenizer="bytes"),
    evals=evals,
  )
