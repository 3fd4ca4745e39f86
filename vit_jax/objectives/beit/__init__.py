"""BEiT: prediction of a frozen tokenizer's tokens for masked patches."""
