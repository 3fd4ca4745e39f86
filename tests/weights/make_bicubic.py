"""Makes bicubic.npz with PyTorch: python tests/weights/make_bicubic.py

For each pair of grids, `OLDxNEW/table` and what torch.nn.functional.interpolate
makes of it, `OLDxNEW/bicubic` and `OLDxNEW/bicubic_antialias`; and
`OLDxNEW/bicubic_offset`, of DINO's scale factors.
"""

import pathlib

import numpy as np
import torch

GRIDS = (
  ((4, 4), (6, 6)),
  ((7, 5), (3, 9)),
  ((14, 14), (24, 24)),
  ((12, 12), (5, 7)),
  ((1, 2), (3, 3)),
  # A side that stays.
  ((4, 5), (4, 3)),
)


def main() -> None:
  rng = np.random.default_rng(0)
  arrays = {}
  for old, new in GRIDS:
    name = "_".join(f"{rows}x{columns}" for rows, columns in (old, new))
    table = rng.standard_normal((1, 2, *old)).astype(np.float32)
    arrays[f"{name}/table"] = np.moveaxis(table, 1, -1)
    factors = [(n + 0.1) / o for n, o in zip(new, old, strict=True)]
    for method, keys in (
      ("bicubic", {"size": new}),
      ("bicubic_antialias", {"size": new, "antialias": True}),
      ("bicubic_offset", {"scale_factor": factors}),
    ):
      resized = torch.nn.functional.interpolate(
        torch.from_numpy(table), mode="bicubic", align_corners=False, **keys
      )
      arrays[f"{name}/{method}"] = np.moveaxis(resized.numpy(), 1, -1)
  path = pathlib.Path(__file__).with_name("bicubic.npz")
  np.savez_compressed(path, **arrays)


if __name__ == "__main__":
  main()
