"""Captions to token ids, by the rules of CLIP and SigLIP."""
