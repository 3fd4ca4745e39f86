"""Modules that architectures are built from."""
