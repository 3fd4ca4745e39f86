"""Numbers that show what a trained network has learned and looks at."""
