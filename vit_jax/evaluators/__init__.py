"""What measures a model while it trains and afterwards."""
