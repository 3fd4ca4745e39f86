"""Supervised classification."""
