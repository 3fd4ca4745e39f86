"""Datasets of the Hugging Face hub and library."""
