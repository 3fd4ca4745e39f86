"""VQ-KD, which trains the tokenizer of BEiT v2."""
