"""Makes the small Swins of this folder, as `make_huggingface.py` does its own.

python tests/golden/make_swin.py
"""

import copy

import numpy as np
import timm
import torch
import transformers
from make_huggingface import (
  HERE,
  IMAGENET,
  LABELS,
  pixels,
  randomize,
  save_huggingface,
  save_timm,
)
from timm.models import swin_transformer

# The second stage's map is one window at the native size only.
SIZES = dict(embed_dim=8, depths=(2, 2), num_heads=(2, 4), window_size=4)


def randomize_all(model: torch.nn.Module, seed: int) -> None:
  """As `randomize`, with the scales of version 2 where training finds them."""
  randomize(model, seed)
  generator = torch.Generator().manual_seed(seed)
  with torch.no_grad():
    for name, parameter in sorted(model.named_parameters()):
      if name.endswith("logit_scale"):
        value = torch.rand(parameter.shape, generator=generator)
        # One head's is beyond the largest that counts.
        parameter.copy_((1 + 4 * value).half())


def huggingface(kind: str, seed: int, *, has_head: bool, **more) -> None:
  """A folder huggingface_<kind>: 'swin' or 'swinv2'."""
  prefix = {"swin": "Swin", "swinv2": "Swinv2"}[kind]
  sizes = {
    key: list(value) if isinstance(value, tuple) else value
    for key, value in SIZES.items()
  }
  labels = dict(id2label=LABELS) if has_head else {}

  def build(image_size):
    config = getattr(transformers, f"{prefix}Config")(
      **sizes, **labels, **more, image_size=image_size, patch_size=2
    )
    suffix = "ForImageClassification" if has_head else "Model"
    return getattr(transformers, prefix + suffix)(config).eval()

  model = build(16)
  randomize_all(model, seed)
  functions = {16: _outputs(model)}
  # Maps of 11 and 6 places, which windows of 4 do not divide.
  larger = build(22)
  larger.load_state_dict(model.state_dict())
  functions[22] = _outputs(larger)
  save_huggingface(
    f"huggingface_{kind}",
    model,
    IMAGENET,
    functions,
    processor={"size": {"height": 16, "width": 16}, "resample": 3},
  )


def _outputs(model):
  def function(pixels):
    found = model(pixels)
    return found.logits if "logits" in found else found.pooler_output

  return function


def save_resized(name: str, model, window: int) -> None:
  """Adds the first table of biases for another window to expected.npz.

  As the authors resize it; timm's own way is another.
  """
  path = HERE / f"timm_{name}" / "expected.npz"
  table = model.layers[0].blocks[0].attn.relative_position_bias_table.detach()
  heads, side = table.shape[1], 2 * window - 1
  grid = table.T.reshape(1, heads, 7, 7)
  resized = torch.nn.functional.interpolate(
    grid, size=(side, side), mode="bicubic"
  )
  with np.load(path) as arrays:
    arrays = dict(arrays)
  resized = resized.reshape(heads, -1).T.numpy()
  np.savez_compressed(path, **arrays, **{f"positions_{window}": resized})


def save_smaller(name: str, model, architecture: str, arguments) -> None:
  """Adds what timm makes of images whose last map is a smaller window."""
  path = HERE / f"timm_{name}" / "expected.npz"
  smaller = timm.create_model(architecture, **{**arguments, "img_size": 16})
  tensors = swin_transformer.checkpoint_filter_fn(model.state_dict(), smaller)
  smaller.load_state_dict(tensors)
  with np.load(path) as arrays:
    arrays = dict(arrays)
  images = arrays["images"][:, :16, :16]
  with torch.no_grad():
    outputs = smaller.eval()(pixels(images, IMAGENET)).numpy()
  np.savez_compressed(path, **arrays, smaller=images, smaller_outputs=outputs)


def timms(name: str, architecture: str, seed: int, **more) -> None:
  """A folder of timm's; its larger images have the same windows."""
  arguments = dict(SIZES, img_size=32, num_classes=5, **more)
  model = timm.create_model(architecture, **arguments)
  randomize_all(model, seed)
  larger = copy.deepcopy(model)
  larger.set_input_size(img_size=64, window_size=4)
  save_timm(
    f"timm_{name}",
    model,
    IMAGENET,
    {32: model, 64: larger},
    architecture,
    global_pool="avg",
    model_args=arguments,
    label_names=list(LABELS.values()),
  )
  if name == "swin":
    save_resized(name, model, 6)
    save_smaller(name, model, architecture, arguments)


if __name__ == "__main__":
  huggingface("swin", 31, has_head=True)
  huggingface("swinv2", 32, has_head=False, pretrained_window_sizes=[3, 0])
  timms("swin", "swin_tiny_patch4_window7_224", 33)
  timms("swinv2", "swinv2_tiny_window8_256", 36)
