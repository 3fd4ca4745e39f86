"""Flax Linen networks: what the trainer trains."""
