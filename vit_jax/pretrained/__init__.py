"""Loading, saving and initialising from checkpoints in any format."""
