"""Fully convolutional masked autoencoders."""
