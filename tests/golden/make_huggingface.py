"""Makes the small checkpoints of this folder, with Hugging Face's and timm's
own classes.

Each folder holds a tiny model with random parameters as the library saves it,
and `expected.npz`: `images`, uint8 [b, h, w, 3], and `outputs`, float32, what
the library makes of them. The tests need the folders only; to make them again:

  pip install torch==2.13.0 transformers==5.23.0 timm==1.0.31
  python tests/golden/make_huggingface.py
"""

import json
import pathlib
import shutil

import numpy as np
import torch
from transformers import (
  ViTConfig,
  ViTForImageClassification,
)

HERE = pathlib.Path(__file__).parent
HALVES = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
VIT = dict(
  hidden_size=32,
  num_hidden_layers=2,
  num_attention_heads=4,
  intermediate_size=48,
  image_size=16,
  patch_size=4,
)
LABELS = dict(enumerate(("ant", "bee", "cat: a pet", "dog", "eel")))


def randomize(model: torch.nn.Module, seed: int) -> None:
  """Gives every parameter a value that the output depends on."""
  generator = torch.Generator().manual_seed(seed)
  with torch.no_grad():
    for name, parameter in sorted(model.named_parameters()):
      noise = torch.randn(parameter.shape, generator=generator)
      if parameter.ndim > 1 and name.endswith("weight"):
        parameter.copy_(noise / parameter[0].numel() ** 0.5)
      elif name.endswith("weight"):
        parameter.copy_(1 + 0.3 * noise)
      else:
        parameter.copy_(0.3 * noise)


def pixels(images: np.ndarray, statistics) -> torch.Tensor:
  """uint8 [b, h, w, 3] as the libraries' preprocessors pass them on."""
  mean, deviation = (np.float32(x) for x in statistics)
  values = (images.astype(np.float32) / 255 - mean) / deviation
  return torch.from_numpy(values.transpose(0, 3, 1, 2).copy())


def draw(size: int, seed: int, count: int = 2) -> np.ndarray:
  generator = np.random.default_rng(seed)
  return generator.integers(0, 256, (count, size, size, 3), np.uint8)


def save(name: str, model, statistics, outputs, *, size: int, more=None):
  """Writes a folder.

  Args:
    name: of the folder.
    model: saved by its own method.
    statistics: mean and deviation for preprocessor_config.json; None: without.
    outputs: function of pixel values that gives what is expected.
    size: of the images, pixels.
    more: other sizes, and the functions for those.
  """
  folder = HERE / name
  shutil.rmtree(folder, ignore_errors=True)
  model.save_pretrained(folder)
  if statistics:
    mean, deviation = statistics
    settings = {
      "do_normalize": True,
      "do_rescale": True,
      "do_resize": True,
      "image_mean": mean,
      "image_std": deviation,
      "rescale_factor": 1 / 255,
      "size": {"height": size, "width": size},
    }
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps(settings, indent=2) + "\n")
  arrays = {}
  for number, (side, function) in enumerate(
    {size: outputs, **(more or {})}.items()
  ):
    suffix = f"_{side}" if number else ""
    images = draw(side, seed=side)
    with torch.no_grad():
      values = function(pixels(images, statistics or HALVES))
    arrays[f"images{suffix}"] = images
    arrays[f"outputs{suffix}"] = values.numpy().astype(np.float32)
  np.savez(folder / "expected.npz", **arrays)


def classifier(config, kind, seed):
  model = kind(config).eval()
  randomize(model, seed)
  return model


def make_vit() -> None:
  config = ViTConfig(**VIT, id2label=LABELS, layer_norm_eps=1e-6)
  model = classifier(config, ViTForImageClassification, 1)
  save(
    "huggingface_vit",
    model,
    HALVES,
    lambda x: model(x).logits,
    size=16,
    more={24: lambda x: model(x, interpolate_pos_encoding=True).logits},
  )


if __name__ == "__main__":
  make_vit()
