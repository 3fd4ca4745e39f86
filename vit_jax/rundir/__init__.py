"""Everything a run leaves behind: checkpoints, metrics, progress, summary."""
