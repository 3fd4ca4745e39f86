"""Augmentations of images in TensorFlow."""
