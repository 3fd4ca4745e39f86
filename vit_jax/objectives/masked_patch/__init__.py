"""Masked patch prediction."""
