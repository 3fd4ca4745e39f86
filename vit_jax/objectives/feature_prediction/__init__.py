"""Prediction of the features that a frozen network has of masked patches."""
