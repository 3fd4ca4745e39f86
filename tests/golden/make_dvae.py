"""Makes `dvae`: an encoder as DALL-E's dVAE has it, and its tokens.

`encoder.pth`, the state dict of a small FlavaImageCodebook with random
parameters, under the names of DALL-E's `encoder.pkl` and in half precision, and
`expected.npz`: `images`, uint8 [b, h, w, 3], and their `tokens` [b, n].
Made with torch 2.13.0 and transformers 5.23.0:

  pip install torch transformers
  python tests/golden/make_dvae.py
"""

import pathlib

import numpy as np
import torch
import transformers

HERE = pathlib.Path(__file__).parent / "dvae"


def published(name: str) -> str:
  """The name in `encoder.pkl` of a parameter of FlavaImageCodebook."""
  name = name.replace(".group.", ".").replace(".path.", ".")
  return name.replace(".weight", ".w").replace(".bias", ".b")


def main() -> None:
  torch.manual_seed(0)
  config = transformers.FlavaImageCodebookConfig(
    hidden_size=4, num_blocks_per_group=1, vocab_size=24
  )
  network = transformers.FlavaImageCodebook(config).eval()
  with torch.no_grad():
    for tensor in network.parameters():
      # So large that each block is felt, and biases so small that no token is
      # that of every place.
      scale = 3 / tensor[0].numel() ** 0.5 if tensor.ndim > 1 else 0.1
      tensor.copy_((scale * torch.randn_like(tensor)).half())
  HERE.mkdir(exist_ok=True)
  torch.save(
    {published(n): t.detach().half() for n, t in network.named_parameters()},
    HERE / "encoder.pth",
  )
  # Squares of one colour: noise looks alike everywhere.
  colours = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), np.uint8)
  images = colours.repeat(4, axis=1).repeat(4, axis=2)
  pixels = torch.from_numpy(images).permute(0, 3, 1, 2) / 255
  seen = 0.8 * pixels + 0.1
  with torch.no_grad():
    tokens = network.get_codebook_indices(seen).flatten(1).numpy()
  np.savez_compressed(
    HERE / "expected.npz",
    images=images,
    tokens=tokens.astype(np.int32),
  )
  print(len(np.unique(tokens)), "different tokens")


if __name__ == "__main__":
  main()
