"""What a trained network has learned and looks at."""
