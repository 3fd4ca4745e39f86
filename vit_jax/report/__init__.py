"""Reports made from records alone; never imports jax."""
