"""Swin Transformers, whose attention stays within windows."""
