"""Pyramid Vision Transformers, whose keys and values are of smaller maps."""
