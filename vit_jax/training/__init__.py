"""The sharded train step, its state and the loop around it."""
