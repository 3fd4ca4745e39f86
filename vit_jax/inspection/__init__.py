"""Numbers that show what a trained network has learned and attends to."""
