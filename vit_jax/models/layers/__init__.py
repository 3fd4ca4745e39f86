"""Modules that architectures are built of."""
