"""Meshes and the rules for placing arrays on them."""
