"""Experiment trackers that get a run's metrics: one file a library."""
