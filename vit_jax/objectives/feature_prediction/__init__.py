"""Prediction of a frozen network's features for masked patches."""
