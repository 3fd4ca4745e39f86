"""Experiment trackers that receive a run's metrics, one file per library."""
