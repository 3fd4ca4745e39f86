"""Supervised classification and regression."""
