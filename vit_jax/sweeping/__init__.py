"""The parts of `vit_jax.sweep`: a plan of runs, their processes, a table."""
