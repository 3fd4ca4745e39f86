"""Parameters and FLOPs of Swins are as many as published."""

import pytest

from vit_jax import registry

FAMILY = registry.FAMILIES.get("swin")


@pytest.mark.parametrize(
  "name, image_size, keys, millions, billions",
  [
    # Table 1 of arXiv 2103.14030; parameters to a decimal as released.
    ("Swin-T", 224, {}, 28.3, 4.5),
    ("Swin-S", 224, {}, 49.6, 8.7),
    ("Swin-B", 224, {}, 87.8, 15.4),
    ("Swin-L", 224, {}, 196.5, 34.5),
    ("Swin-B", 384, {"window_size": 12}, 87.9, 47.0),
    ("Swin-L", 384, {"window_size": 12}, 196.7, 103.9),
    # Released with arXiv 2111.09883.
    ("SwinV2-T", 256, {}, 28.3, 5.9),
    ("SwinV2-S", 256, {}, 49.7, 11.5),
    ("SwinV2-B", 256, {}, 87.9, 20.3),
  ],
)
def test_they_are_those_of_the_papers(
  name, image_size, keys, millions, billions
):
  model = FAMILY.find(name).updated(image_size=image_size, **keys)
  assert round(FAMILY.num_params(model, 1000) / 1e6, 1) == millions
  macs = FAMILY.forward_flops(model, 1000) / 2e9
  assert macs == pytest.approx(billions, abs=0.2 if billions > 40 else 0.05)


def test_flops_of_a_padded_map_are_those_of_whole_windows():
  model = FAMILY.find("Swin-T").updated(
    depths=(1,), num_heads=(1,), width=4, patch_size=2, window_size=3
  )
  model = model.updated(image_size=8)
  # 4 x 4 places; windows of 3 make 6 x 6 of them.
  stem = 16 * 12 * 4
  attention = 36 * (4 * 16 + 2 * 9 * 4)
  mlp = 16 * 2 * 4 * 16
  flops = 2 * (stem + attention + mlp + 4 * 10)
  assert FAMILY.forward_flops(model, 10) == flops
