"""Numbers and cost formulas of the ViT paper."""
