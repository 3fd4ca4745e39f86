"""Swin Transformers, with attention within windows."""
