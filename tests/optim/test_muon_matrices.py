import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.optim import muon_matrices


def _blocks(tree):
  blocks = {k: v for k, v in tree["Transformer"].items() if "block" in k}
  return {
    "Transformer": jax.tree_util.tree_map_with_path(
      lambda path, x: x if path[-1].key == "kernel" else None, blocks
    )
  }


def test_only_kernels_of_blocks_are_matrices(params):
  labels = muon_matrices.labels(params)
  block = labels["Transformer"]["encoderblock_1"]
  assert block["MlpBlock_0"]["Dense_0"] == {
    "kernel": "matrices",
    "bias": "others",
  }
  assert block["LayerNorm_0"]["scale"] == "others"
  assert labels["embedding"]["kernel"] == labels["head"]["kernel"] == "others"


def test_axes_merge_heads_and_leave_layers_out(params, stack):
  looped = muon_matrices.dimensions(_blocks(params))
  attention = looped["Transformer"]["encoderblock_0"][
    "MultiHeadDotProductAttention_0"
  ]
  assert attention["query"]["kernel"] == ((0,), (1, 2))
  assert attention["out"]["kernel"] == ((0, 1), (2,))
  scanned = muon_matrices.dimensions(_blocks(stack(params)))
  block = scanned["Transformer"]["encoderblock"]
  attention = block["MultiHeadDotProductAttention_0"]
  assert attention["query"]["kernel"] == ((1,), (2, 3))
  assert attention["out"]["kernel"] == ((1, 2), (3,))
  assert block["MlpBlock_0"]["Dense_0"]["kernel"] == ((1,), (2,))


def test_update_is_near_the_orthogonal_factor_scaled_to_its_rms(grads):
  grads = _blocks(grads)
  tx = muon_matrices.scale_by_muon(momentum=0.9, eps=1e-8, mu_dtype="float32")
  updates, _ = tx.update(grads, tx.init(grads))
  for gradient, update in zip(
    jax.tree.leaves(grads), jax.tree.leaves(updates), strict=True
  ):
    # Every kernel of the fixture has 8 inputs, heads merged.
    gradient = np.asarray(gradient).reshape(8, -1)
    update = np.asarray(update).reshape(8, -1)
    left, _, right = np.linalg.svd(gradient, full_matrices=False)
    scale = 0.2 * np.sqrt(max(gradient.shape))
    singular_values = np.linalg.svd(update / scale, compute_uv=False)
    # Newton-Schulz with Muon's coefficients is known to stop near 1.
    assert np.all((singular_values > 0.4) & (singular_values < 1.3))
    cosine = jnp.sum(update * (left @ right)) / (
      np.linalg.norm(update) * np.linalg.norm(left @ right)
    )
    assert cosine > 0.9
