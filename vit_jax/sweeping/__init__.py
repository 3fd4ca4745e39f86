"""The parts of `vit_jax.sweep`: which runs there are, running them, a table."""
