"""Makes `mae_pretraining`: a masked autoencoder of Hugging Face with its loss.

A directory as `ViTMAEForPreTraining` saves it, and `expected.npz`: `images`,
uint8 [b, h, w, 3], `noise` [b, n], by which patches are kept in rising order,
and what the network makes of them: `loss`, and `predictions` [b, n, pixels] of
all patches. Made with torch 2.13.0 and transformers 5.23.0:

  pip install torch transformers
  python tests/golden/make_mae.py
"""

import pathlib

import numpy as np
import torch
import transformers

HERE = pathlib.Path(__file__).parent / "mae_pretraining"
MEAN = np.float32([0.485, 0.456, 0.406])
DEVIATION = np.float32([0.229, 0.224, 0.225])


def positions(side: int, width: int) -> np.ndarray:
  """As util/pos_embed.py: a zero row, then columns before rows."""
  rows = [np.zeros(width)]
  for y in range(side):
    for x in range(side):
      frequencies = 1 / 10_000 ** (4 * np.arange(width // 4) / width)
      parts = [
        f(place * frequencies) for place in (x, y) for f in (np.sin, np.cos)
      ]
      rows.append(np.concatenate(parts))
  return np.float32(rows)


def main() -> None:
  torch.manual_seed(0)
  config = transformers.ViTMAEConfig(
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=32,
    image_size=16,
    patch_size=4,
    decoder_hidden_size=8,
    decoder_num_hidden_layers=2,
    decoder_num_attention_heads=2,
    decoder_intermediate_size=32,
    mask_ratio=0.75,
    norm_pix_loss=True,
    layer_norm_eps=1e-6,
  )
  network = transformers.ViTMAEForPreTraining(config).eval()
  with torch.no_grad():
    for name, tensor in network.named_parameters():
      if "position" not in name and "pos_embed" not in name:
        tensor.add_(0.1 * torch.randn_like(tensor))
    # transformers 5 leaves the decoder's table at zeros, and has rows before
    # columns in the encoder's; published files hold both as MAE made them.
    for table in (
      network.vit.embeddings.position_embeddings,
      network.decoder.decoder_pos_embed,
    ):
      table.copy_(torch.from_numpy(positions(4, table.shape[-1]))[None])
  rng = np.random.default_rng(0)
  images = rng.integers(0, 256, (3, 16, 16, 3), np.uint8)
  noise = rng.random((3, 16), np.float32)
  pixels = (images / np.float32(255) - MEAN) / DEVIATION
  with torch.no_grad():
    found = network(
      torch.from_numpy(pixels.transpose(0, 3, 1, 2)),
      noise=torch.from_numpy(noise),
    )
  network.save_pretrained(HERE)
  np.savez(
    HERE / "expected.npz",
    images=images,
    noise=noise,
    loss=found.loss.numpy(),
    predictions=found.logits.numpy(),
  )


if __name__ == "__main__":
  main()
