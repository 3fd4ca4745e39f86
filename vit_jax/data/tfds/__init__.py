"""Datasets of TensorFlow Datasets, stored on disk."""
