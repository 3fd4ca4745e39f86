"""Training objectives with one common contract."""
