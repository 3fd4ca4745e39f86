"""Starting values of a Vision Transformer, as the released codes have them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.networks import tiny
from vit_jax import trees
from vit_jax.models.text.network import TextTransformer

# 64 channels, so that a deviation is known to a few percent.
_SIZES = dict(variant="Ti/8", width=64, mlp_dim=256, depth=1, image_size=16)


def _params(init, **keys):
  model = tiny(40, **_SIZES, **keys, weight_init=init)
  images = np.zeros((1, 16, 16, 3), np.uint8)
  params = model.init(jax.random.key(0), images)["params"]
  return dict(trees.named_leaves(params))


@pytest.mark.parametrize(
  "init, token", [("deit", 0.02), ("dinov2", 1e-6)], ids=["deit", "dinov2"]
)
@pytest.mark.parametrize("mlp", ["gelu", "swiglu"])
def test_matrices_and_tokens_start_as_in_the_released_code(init, token, mlp):
  """deit's models_v2.py, dino's and dinov2's vision_transformer.py."""
  found = _params(init, mlp=mlp, distillation="average")
  kernels = [p for p in found if p.endswith("kernel") and "embedding" not in p]
  assert len(kernels) == 8 + (mlp == "swiglu")
  for path in kernels:
    np.testing.assert_allclose(np.std(found[path]), 0.02, rtol=0.06)
    assert abs(np.mean(found[path])) < 2e-3
  for path in ("cls", "dist"):
    np.testing.assert_allclose(np.std(found[path]), token, rtol=0.3)
  biases = [p for p in found if p.endswith("bias") and "embedding" not in p]
  assert all(not np.any(found[path]) for path in biases)


def test_the_embedding_of_patches_starts_as_a_convolution_of_pytorch():
  """Uniform up to 1 / sqrt(inputs), kernel and bias."""
  found = _params("deit")
  bound = (8 * 8 * 3) ** -0.5
  for name in ("kernel", "bias"):
    value = np.asarray(found[f"embedding/{name}"])
    assert 0.9 * bound < np.abs(value).max() <= bound
    np.testing.assert_allclose(np.std(value), bound / 3**0.5, rtol=0.2)


def test_a_vit_starts_with_xavier_matrices_and_a_head_of_zeros():
  found = _params("vit")
  assert not np.any(found["head/kernel"]) and not np.any(found["cls"])
  prefix = "Transformer/encoderblock_0/MultiHeadDotProductAttention_0"
  value = np.asarray(found[f"{prefix}/query/kernel"])
  bound = (6 / (64 + 64)) ** 0.5
  assert 0.95 * bound < np.abs(value).max() <= bound


def test_clips_image_tower_starts_as_pytorchs_layers():
  """open_clip's VisionTransformer, which leaves all but tokens to PyTorch."""
  found = _params("clip", patch_bias=False)
  block = "Transformer/encoderblock_0"
  attention = f"{block}/MultiHeadDotProductAttention_0"
  bounds = {
    # Of one matrix [64, 3 * 64], as torch's MultiheadAttention has it.
    f"{attention}/query/kernel": (6 / (4 * 64)) ** 0.5,
    f"{attention}/out/kernel": 64**-0.5,
    f"{block}/MlpBlock_0/Dense_0/kernel": 64**-0.5,
    f"{block}/MlpBlock_0/Dense_0/bias": 64**-0.5,
    f"{block}/MlpBlock_0/Dense_1/kernel": 256**-0.5,
    f"{block}/MlpBlock_0/Dense_1/bias": 256**-0.5,
    "embedding/kernel": (8 * 8 * 3) ** -0.5,
  }
  for path, bound in bounds.items():
    largest = np.abs(found[path]).max()
    assert 0.9 * bound < largest <= bound, path
  np.testing.assert_allclose(np.std(found["cls"]), 64**-0.5, rtol=0.3)


def test_clips_text_tower_starts_with_deviations_by_width_and_depth():
  """init_parameters of open_clip's TextTransformer."""
  tower = TextTransformer(
    width=64,
    depth=3,
    num_heads=2,
    mlp_dim=256,
    vocab_size=40,
    length=5,
    weight_init="clip",
  )
  params = tower.init(jax.random.key(0), jnp.zeros((1, 5), "int32"))["params"]
  found = dict(trees.named_leaves(params))
  block = "Transformer/encoderblock_2"
  attention = f"{block}/MultiHeadDotProductAttention_0"
  deviations = {
    f"{attention}/value/kernel": 64**-0.5,
    f"{attention}/out/kernel": 64**-0.5 * 6**-0.5,
    f"{block}/MlpBlock_0/Dense_0/kernel": 128**-0.5,
    f"{block}/MlpBlock_0/Dense_1/kernel": 64**-0.5 * 6**-0.5,
  }
  for path, stddev in deviations.items():
    np.testing.assert_allclose(np.std(found[path]), stddev, rtol=0.05)
