"""Flax Linen networks that the trainer trains."""
