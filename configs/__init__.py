"""Experiment files, installed as `vit_jax.configs`."""
