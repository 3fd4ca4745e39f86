"""timm and transformers, where they are installed, beside our networks.

With torch's CPU wheel: pip install torch transformers timm
"""

import json

import jax
import numpy as np
import pytest

import vit_jax
from tests.weights.spellings import test_timm_write as written

torch = pytest.importorskip("torch")
timm = pytest.importorskip("timm")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.slow

SMALL = {"img_size": 64, "embed_dim": 48, "depth": 2, "num_heads": 3}
PATCH14 = SMALL | {"img_size": 56}
STAGES = {"embed_dim": 24, "depths": (1, 1, 2, 1), "num_heads": (1, 2, 3, 4)}
PADDED = {"img_size": 80, "depths": (2, 2, 1, 1)}
# Architectures of timm and arguments, with which its own `save_for_hf` writes
# the directories.
MODELS = (
  ("vit_tiny_patch16_224", {}),
  ("vit_base_patch16_224", SMALL | {"patch_size": 8, "num_classes": 7}),
  ("vit_base_patch16_224", SMALL | {"global_pool": "avg"}),
  (
    "vit_base_patch16_224",
    SMALL | {"global_pool": "avg", "fc_norm": False, "class_token": False},
  ),
  ("vit_base_patch16_224", SMALL | {"pos_embed": "none", "pre_norm": True}),
  ("vit_base_patch16_224", SMALL | {"scale_mlp_norm": True}),
  ("vit_base_patch16_224", SMALL | {"global_pool": "", "num_classes": 0}),
  ("vit_base_patch16_gap_224", SMALL),
  ("vit_base_patch16_clip_224", SMALL | {"pre_norm": False}),
  ("vit_base_patch16_clip_quickgelu_224", SMALL),
  ("vit_base_patch16_siglip_224", SMALL),
  ("vit_base_patch32_siglip_gap_256", SMALL),
  ("vit_small_patch14_dinov2", PATCH14),
  ("vit_giant_patch14_reg4_dinov2", PATCH14),
  ("vit_medium_patch16_reg4_gap_256", SMALL),
  ("vit_base_patch16_rope_reg1_gap_256", SMALL),
  ("vit_so150m_patch16_reg4_gap_256", SMALL),
  ("vit_base_patch16_224", SMALL | {"reg_tokens": 3}),
  ("flexivit_small", SMALL),
  ("deit_tiny_distilled_patch16_224", SMALL),
  ("deit3_small_patch16_224", SMALL),
  ("vit_tiny_r_s16_p8_224", SMALL),
  ("vit_small_r26_s32_224", SMALL),
  ("resnetv2_50x1_bit", {}),
  ("swin_tiny_patch4_window7_224", STAGES),
  ("swinv2_base_window12to16_192to256", STAGES),
  # Maps of 20 and 10 places, which windows of 7 and 8 do not divide.
  ("swin_tiny_patch4_window7_224", STAGES | PADDED),
  ("swinv2_tiny_window8_256", STAGES | PADDED),
  ("convnext_nano", {"depths": (1, 1, 2, 1), "norm_eps": 1e-5}),
  ("convnextv2_atto", {"depths": (1, 1, 2, 1)}),
  ("pvt_v2_b0", {}),
  ("pvt_v2_b2_li", {"depths": (1, 1, 1, 1)}),
  ("beit_base_patch16_224", SMALL),
  ("beitv2_base_patch16_224", SMALL | {"global_pool": "token"}),
  ("eva_large_patch14_196", PATCH14),
  ("eva02_tiny_patch14_224", PATCH14),
  ("eva02_base_patch14_448", PATCH14),
  ("vit_small_patch16_dinov3_qkvb", SMALL),
  ("vit_huge_plus_patch16_dinov3", SMALL | {"global_pool": "token"}),
)


def pixels(images, settings):
  mean, deviation = (np.float32(settings[key]) for key in ("mean", "std"))
  values = (images / np.float32(255) - mean) / deviation
  return torch.from_numpy(values.transpose(0, 3, 1, 2).copy())


def randomized(model):
  """A model with parameters that outputs depend on."""
  generator = torch.Generator().manual_seed(0)
  with torch.no_grad():
    for name, parameter in sorted(model.named_parameters()):
      value = torch.randn(parameter.shape, generator=generator)
      if parameter.ndim > 1 and name.endswith("weight"):
        value = value / parameter[0].numel() ** 0.5
      elif name.endswith(("weight", "gamma")):
        value = 1 + 0.3 * value
      else:
        value = 0.3 * value
      parameter.copy_(value)
  return model.eval()


@pytest.mark.parametrize(("number", "form"), enumerate([True, False, "both"]))
def test_timms_directories_of_any_form_load(tmp_path, number, form):
  name, arguments = MODELS[1 + number]
  model = randomized(timm.create_model(name, **arguments))
  timm.models.save_for_hf(model, tmp_path, safe_serialization=form)
  assert check_loaded(model, tmp_path) < 1e-5


@pytest.mark.parametrize("number", range(len(MODELS)))
def test_timms_own_directories_give_what_timm_gives(tmp_path, number):
  name, arguments = MODELS[number]
  model = randomized(timm.create_model(name, **arguments))
  timm.models.save_for_hf(model, tmp_path, safe_serialization=True)
  error = check_loaded(model, tmp_path)
  print(f"{name} {json.dumps(arguments)} {error:.1e}")
  assert error < 1e-5


def check_loaded(model, directory) -> float:
  """Relative error of a loaded directory's outputs."""
  config = json.loads((directory / "config.json").read_text())
  settings = config["pretrained_cfg"]
  side = settings["input_size"][-1]
  rng = np.random.default_rng(0)
  images = rng.integers(0, 256, (2, side, side, 3)).astype(np.uint8)
  with torch.no_grad():
    wanted = model(pixels(images, settings)).numpy()
  network, params = vit_jax.load(str(directory))
  found = np.asarray(jax.jit(network.apply)({"params": params}, images))
  return written.relative_error(found, wanted)


@pytest.mark.parametrize("num_classes", [5, None])
@pytest.mark.parametrize("name", written.CASES | written.LARGE)
def test_timm_and_transformers_compute_what_we_do(tmp_path, name, num_classes):
  network, params, images = written.made(name, num_classes)
  wanted = np.asarray(jax.jit(network.apply)({"params": params}, images))
  directory = tmp_path / "out"
  vit_jax.save(str(directory), network, params, form="timm")
  inputs = pixels(images, written.config_of(directory)["pretrained_cfg"])
  model = timm.create_model(f"local-dir:{directory}", pretrained=True).eval()
  kind = "AutoModelForImageClassification" if num_classes else "AutoModel"
  wrapper = getattr(transformers, kind).from_pretrained(directory)
  with torch.no_grad():
    by_timm, outputs = model(inputs).numpy(), wrapper(inputs)
  # What a network without pooling gives is the last hidden state.
  by_wrapper = outputs.logits if num_classes else outputs.pooler_output
  print(f"{name} {written.relative_error(by_timm, wanted):.1e}")
  assert written.relative_error(by_timm, wanted) < 1e-5
  assert written.relative_error(by_wrapper.numpy(), wanted) < 1e-5


def test_a_lone_file_opens_with_the_line_that_is_said(tmp_path, caplog):
  network, params, images = written.made("gap")
  path = tmp_path / "x.safetensors"
  with caplog.at_level("WARNING"):
    vit_jax.save(str(path), network, params)
  line = caplog.messages[-1].partition(": ")[2].removesuffix(" opens it.")
  model = eval(line, {"timm": timm}).eval()  # noqa: S307
  with torch.no_grad():
    found = model(pixels(images, {"mean": [0.5] * 3, "std": [0.5] * 3}))
  wanted = np.asarray(jax.jit(network.apply)({"params": params}, images))
  assert written.relative_error(found.numpy(), wanted) < 1e-5
