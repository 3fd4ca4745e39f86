"""Makes the small SigLIP of this folder by big_vision's own network.

`towers.npz` is as big_vision publishes: layers stacked, in bfloat16, every name
behind "params/". `expected.npz` holds `images`, uint8 [b, h, w, 3], `text`,
int32 [t, n], `image_embedding`, `text_embedding` and `logits`, in float32.

  PYTHONPATH=big_vision python tests/golden/make_big_vision.py
"""

import pathlib

import flax
import jax
import ml_dtypes
import numpy as np
from big_vision.models.proj.image_text import two_towers

FOLDER = pathlib.Path(__file__).parent / "big_vision_siglip"
TOWER = dict(width=24, depth=2, mlp_dim=40, num_heads=1, scan=True)


def main() -> None:
  rng = np.random.default_rng(0)
  images = rng.integers(0, 256, (3, 16, 16, 3), np.uint8)
  text = rng.integers(0, 60, (5, 8)).astype(np.int32)
  model = two_towers.Model(
    image=dict(patch_size=(4, 4), pool_type="map", **TOWER),
    text=dict(vocab_size=60, pool_type="last", **TOWER),
    out_dim=(None, TOWER["width"]),
    temperature_init=10.0,
    bias_init=-10.0,
  )
  pixels = images.astype(np.float32) / 127.5 - 1
  params = model.init(jax.random.key(0), pixels, text)["params"]

  def rounded(leaf):
    noise = 0.2 * rng.standard_normal(leaf.shape)
    return np.asarray(leaf + noise, ml_dtypes.bfloat16)

  params = jax.tree.map(rounded, params)
  exact = jax.tree.map(lambda x: x.astype(np.float32), params)
  image, words, out = model.apply({"params": exact}, pixels, text)
  FOLDER.mkdir(exist_ok=True)
  flat = flax.traverse_util.flatten_dict(params, sep="/")
  np.savez_compressed(
    FOLDER / "towers.npz",
    **{f"params/{name}": leaf.view("V2") for name, leaf in flat.items()},
  )
  np.savez_compressed(
    FOLDER / "expected.npz",
    images=images,
    text=text,
    image_embedding=image,
    text_embedding=words,
    logits=image @ words.T * out["t"] + out["b"],
  )


if __name__ == "__main__":
  main()
