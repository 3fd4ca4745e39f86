"""Meshes and the rules that place arrays on them."""
