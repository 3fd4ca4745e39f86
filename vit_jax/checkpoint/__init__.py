"""Saving and restoring of training state."""
