"""Measurements of a model during and after training."""
