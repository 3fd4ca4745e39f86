"""BEiT: a frozen tokenizer's tokens of masked patches."""
