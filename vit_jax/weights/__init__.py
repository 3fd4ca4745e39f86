"""Published checkpoints: their files in, and ours out."""
