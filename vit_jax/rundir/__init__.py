"""Everything a run writes: checkpoints, metrics, progress, summary."""
