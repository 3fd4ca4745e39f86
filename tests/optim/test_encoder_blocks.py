import numpy as np
import optax

from vit_jax.optim import encoder_blocks


def test_layers_are_read_from_looped_paths():
  path = "Transformer/encoderblock_11/MlpBlock_0/Dense_0/kernel"
  assert encoder_blocks.is_in_block(path)
  assert not encoder_blocks.is_stacked(path)
  assert encoder_blocks.layer(path) == 11


def test_scanned_and_other_paths_are_told_apart():
  assert encoder_blocks.is_stacked("Transformer/encoderblock/LayerNorm_0/scale")
  assert not encoder_blocks.is_in_block("Transformer/encoder_norm/scale")
  assert not encoder_blocks.is_stacked("embedding/kernel")


def test_depth_is_the_same_looped_and_scanned(params, stack):
  assert encoder_blocks.depth(params) == 3
  assert encoder_blocks.depth(stack(params)) == 3
  assert encoder_blocks.depth({"head": params["head"]}) == 0


def test_stacked_layers_are_transformed_one_by_one(params, grads, stack):
  tx = encoder_blocks.per_layer(optax.scale_by_trust_ratio())
  looped, _ = tx.update(grads, tx.init(params), params)
  plain = optax.scale_by_trust_ratio()
  expected, _ = plain.update(grads, plain.init(params), params)
  stacked = stack(params)
  scanned, _ = tx.update(stack(grads), tx.init(stacked), stacked)
  kernel = ("Transformer", "encoderblock", "MlpBlock_0", "Dense_0", "kernel")
  for name in kernel:
    scanned = scanned[name]
  for i in range(3):
    block = f"encoderblock_{i}"
    want = expected["Transformer"][block]["MlpBlock_0"]["Dense_0"]["kernel"]
    got = looped["Transformer"][block]["MlpBlock_0"]["Dense_0"]["kernel"]
    np.testing.assert_array_equal(got, want)
    np.testing.assert_allclose(scanned[i], want, rtol=1e-5)
