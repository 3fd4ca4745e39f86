"""A tiny model and a split that need neither files nor TensorFlow."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.config import schema
from vit_jax.data import spec
from vit_jax.evaluators import contract, split
from vit_jax.sharding import mesh as meshes


@dataclasses.dataclass(frozen=True)
class State:
  eval_params: dict


@dataclasses.dataclass(frozen=True)
class FakeSource:
  """Images and labels in arrays; attributes as in `data.sources.Source`."""

  images: np.ndarray
  labels: np.ndarray
  num_classes: int = 3
  class_names: tuple[str, ...] | None = None
  shuffled: bool = False
  reads_names: bool = False

  @property
  def num_examples(self):
    return len(self.labels)

  def names(self, ids):
    return [f"image {i}" for i in ids]

  @property
  def max_labels(self):
    return 1 if self.labels.ndim == 1 else self.labels.shape[1]


class FakeSplit(split.Split):
  """Batches of a FakeSource; if `shuffled`, in no order."""

  def batches(self):
    ids = np.arange(self.num_examples)
    if self.source.shuffled:
      ids = np.random.default_rng(0).permutation(ids)
    sharding = meshes.batch_sharding(self.mesh)
    for start in range(0, len(ids), self.batch_size):
      real = ids[start : start + self.batch_size]
      # Padding repeats example 0, which must not be counted again.
      rows = np.pad(real, (0, self.batch_size - len(real)))
      batch = {
        "image": self.source.images[rows],
        "label": self.source.labels[rows].astype(np.int32),
        "mask": np.arange(self.batch_size) < len(real),
        "id": rows.astype(np.int32),
      }
      yield {k: jax.device_put(v, sharding) for k, v in batch.items()}


def _outputs(params, batch):
  """A linear model on pixels."""
  images = batch["image"]
  pixels = images.astype(jnp.float32).reshape(len(images), -1) / 255
  return {
    "logits": pixels @ params["kernel"],
    "pre_logits": pixels @ params["projection"],
    "tokens": images,
  }


@pytest.fixture
def make_mesh():
  """make_mesh(num_devices) -> Mesh."""

  def make(num_devices=1):
    return meshes.create_mesh(schema.Mesh(), jax.devices()[:num_devices])

  return make


@pytest.fixture
def make_context(make_mesh):
  """make_context(...) -> Context of a linear model."""

  def make(*, mesh=None, workdir=None, num_classes=3, **kwargs):
    return contract.Context(
      config=kwargs.pop("config", schema.Config()),
      outputs=kwargs.pop("outputs", _outputs),
      mesh=mesh or make_mesh(),
      workdir=workdir,
      num_classes=num_classes,
      **kwargs,
    )

  return make


@pytest.fixture
def make_split(make_mesh):
  """make_split(images, labels, ...) -> FakeSplit."""

  def make(images, labels, *, batch_size=16, mesh=None, **kwargs):
    source = FakeSource(images, labels, **kwargs)
    return FakeSplit(
      key="config.evals.test",
      source=source,
      num_classes=source.num_classes,
      max_labels=source.max_labels,
      class_names=source.class_names,
      preprocess=spec.parse("decode", images.shape[1]),
      batch_size=batch_size,
      mesh=mesh or make_mesh(),
    )

  return make


@pytest.fixture
def make_problem():
  """make_problem(...) -> images, labels, a state right about most of them."""

  def make(num_examples=53, *, num_classes=3, size=4, seed=0, noise=90):
    rng = np.random.default_rng(seed)
    shape = (size, size, 3)
    centres = np.random.default_rng(7).uniform(
      100, 150, size=(num_classes, *shape)
    )
    labels = np.arange(num_examples) % num_classes
    images = centres[labels] + rng.normal(0, noise, (num_examples, *shape))
    images = np.clip(images, 0, 255).astype(np.uint8)
    kernel = (centres.reshape(num_classes, -1).T - 125) / 30
    projection = np.random.default_rng(8).normal(size=(size * size * 3, 8))
    params = {
      "kernel": jnp.asarray(kernel, jnp.float32),
      "projection": jnp.asarray(projection, jnp.float32),
    }
    return images, labels, State(params)

  return make
