"""The Vision Transformer and its hybrids."""
