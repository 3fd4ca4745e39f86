"""What is minimised: the seam between the step and the task."""
