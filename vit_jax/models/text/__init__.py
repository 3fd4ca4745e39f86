"""The text transformer of two-tower models."""
