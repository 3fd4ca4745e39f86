"""Makes the small PVTs of this folder, as `make_huggingface.py` does its own;
with the original authors' names, too, from timm's tensors.

  python tests/golden/make_pvt.py
"""

import re

import timm
import transformers
from make_huggingface import (
  IMAGENET,
  LABELS,
  fresh,
  randomize,
  save_expected,
  save_huggingface,
  save_timm,
  stored,
)
from safetensors.torch import save_file

# Keyword arguments of timm's network.
SMALL = dict(
  depths=(1, 2, 1),
  embed_dims=(4, 8, 20),
  num_heads=(1, 2, 5),
  sr_ratios=(4, 2, 1),
  mlp_ratios=(3, 2, 2),
)
UNUSUAL_HEADS = (1, 4, 2)


def huggingface(name: str, seed: int, *, linear: bool, has_head: bool) -> None:
  """A folder huggingface_<name>."""
  config = transformers.PvtV2Config(
    image_size=32,
    num_encoder_blocks=3,
    depths=list(SMALL["depths"]),
    hidden_sizes=list(SMALL["embed_dims"]),
    num_attention_heads=list(UNUSUAL_HEADS if linear else SMALL["num_heads"]),
    sr_ratios=list(SMALL["sr_ratios"]),
    mlp_ratios=list(SMALL["mlp_ratios"]),
    patch_sizes=[7, 3, 3],
    strides=[4, 2, 2],
    linear_attention=linear,
    **(dict(id2label=LABELS) if has_head else {}),
  )
  suffix = "ForImageClassification" if has_head else "Model"
  model = getattr(transformers, "PvtV2" + suffix)(config)
  randomize(model, seed)

  def outputs(pixels):
    found = model(pixels)
    if has_head:
      return found.logits
    return found.last_hidden_state.mean(dim=(2, 3))

  save_huggingface(
    f"huggingface_{name}", model, IMAGENET, {32: outputs, 45: outputs}
  )


def original(name: str) -> str:
  """whai362's name of timm's tensor."""
  name = name.replace("patch_embed.", "patch_embed1.")
  name = re.sub(
    r"stages\.(\d)\.downsample",
    lambda match: f"patch_embed{int(match[1]) + 1}",
    name,
  )
  name = re.sub(
    r"stages\.(\d)\.blocks",
    lambda match: f"block{int(match[1]) + 1}",
    name,
  )
  name = re.sub(
    r"stages\.(\d)\.norm", lambda match: f"norm{int(match[1]) + 1}", name
  )
  return name.replace("mlp.dwconv", "mlp.dwconv.dwconv")


def timms(name: str, seed: int, *, linear: bool, is_saved: bool) -> None:
  """A folder of timm's, or the network of the authors by their names."""
  arguments = dict(SMALL, linear=linear, num_classes=5)
  if linear:
    arguments["num_heads"] = UNUSUAL_HEADS
  architecture = "pvt_v2_b2_li" if linear else "pvt_v2_b0"
  model = timm.create_model(architecture, **arguments)
  randomize(model, seed)
  functions = {32: model, 45: model}
  if is_saved:
    save_timm(
      f"timm_{name}",
      model,
      IMAGENET,
      functions,
      architecture,
      global_pool="avg",
      model_args=arguments,
      label_names=list(LABELS.values()),
    )
    return
  folder = fresh(f"original_{name}")
  save_expected(folder, IMAGENET, functions)
  save_file(
    {original(key): tensor for key, tensor in stored(model).items()},
    folder / "model.safetensors",
  )


if __name__ == "__main__":
  huggingface("pvt_v2", 31, linear=False, has_head=True)
  huggingface("pvt_v2_linear", 32, linear=True, has_head=False)
  timms("pvt_v2", 33, linear=False, is_saved=True)
  timms("pvt_v2_linear", 34, linear=True, is_saved=True)
  timms("pvt_v2", 35, linear=False, is_saved=False)
