"""The decoder of masked autoencoders in Hugging Face's and original files."""

import re

import numpy as np
import pytest
from etils import epath

from tests.weights.published import GOLDEN
from vit_jax.config import schema
from vit_jax.weights import files, flat, tensors
from vit_jax.weights.spellings.vit.original import ORIGINAL

DIRECTORY = GOLDEN / "mae_pretraining"
# Hugging Face's names, in their order, and those of facebookresearch/mae.
NAMES = (
  (r"^vit\.embeddings\.position_embeddings", "pos_embed"),
  (r"^vit\.embeddings\.patch_embeddings\.projection", "patch_embed.proj"),
  (r"^vit\.embeddings\.|^vit\.|^decoder\.(?=decoder|mask)", ""),
  (r"^layernorm", "norm"),
  (r"^decoder_encoder\.layer", "decoder_blocks"),
  (r"^encoder\.layer", "blocks"),
  (r"attention\.output\.dense", "attn.proj"),
  (r"layernorm_before", "norm1"),
  (r"layernorm_after", "norm2"),
  (r"intermediate\.dense", "mlp.fc1"),
  (r"(?<=\d\.)output\.dense", "mlp.fc2"),
)
QUERY = re.compile(r"(.*)\.attention\.attention\.query\.(weight|bias)")


@pytest.fixture(scope="module")
def published():
  return tensors.read(epath.Path(DIRECTORY / "model.safetensors"))


@pytest.fixture(scope="module")
def original(published):
  """The tensors as `mae_pretrain_*_full.pth` has them."""
  found = {}
  for name, tensor in published.items():
    if match := QUERY.fullmatch(name):
      parts = [
        published[f"{match[1]}.attention.attention.{part}.{match[2]}"]
        for part in ("query", "key", "value")
      ]
      name, tensor = f"{match[1]}.attn.qkv.{match[2]}", np.concatenate(parts)
    elif ".attention.attention." in name:
      continue
    for old, new in NAMES:
      name = re.sub(old, new, name)
    found[name] = tensor
  assert {"decoder_pos_embed", "decoder_blocks.1.attn.qkv.bias"} < found.keys()
  return found


def test_hugging_faces_directory_tells_decoder_and_objective():
  weights = files.read(str(DIRECTORY))
  assert weights.objective == schema.MAE(
    decoder_width=8, decoder_depth=2, decoder_num_heads=2
  )
  leaves = flat.flatten(weights.beside)
  assert leaves["decoder/embedding/kernel"].shape == (16, 8)
  query = "MultiHeadDotProductAttention_0/query/kernel"
  path = f"decoder/Transformer/encoderblock_1/{query}"
  assert leaves[path].shape == (8, 2, 4)
  # The fixed positions are no parameters of ours.
  assert not any("pos" in path for path in leaves)


def test_original_files_hold_the_same_decoder(original):
  wanted = flat.flatten(files.read(str(DIRECTORY)).beside)
  params, objective = ORIGINAL.beside(original, "mae.pth")
  assert objective.normalize_pixels and objective.decoder_depth == 2
  found = flat.flatten(params)
  assert found.keys() == wanted.keys()
  for path, leaf in found.items():
    # Of 8 units one head of 32 is made, as that is the size of MAE's heads.
    np.testing.assert_array_equal(
      leaf.reshape(wanted[path].shape), wanted[path]
    )


def test_the_network_of_an_original_file_is_read_without_it(original):
  notes = []
  kept = ORIGINAL.prepare(original, "full.pth", notes)
  assert not any("decoder" in name or "mask" in name for name in kept)
  assert any("decoder" in note for note in notes)


def test_a_file_without_a_decoder_has_none(original):
  network = {n: x for n, x in original.items() if "decoder" not in n}
  assert ORIGINAL.beside(network, "mae.pth") == ({}, None)
