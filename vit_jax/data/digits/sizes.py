"""Sizes of `digits`, for planning without preparing it."""

from vit_jax.paper.datasets import Dataset

SIZES = Dataset(10, {"train": 1442, "test": 355}, side=8)
