"""Reading published checkpoints and writing ours."""
