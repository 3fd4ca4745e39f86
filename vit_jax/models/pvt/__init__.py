"""Pyramid Vision Transformers, with keys and values from smaller maps."""
