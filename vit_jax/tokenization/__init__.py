"""Conversion of captions to token ids, by the rules of CLIP and SigLIP."""
