"""Plain baselines, and the comparisons of our speed with theirs."""
