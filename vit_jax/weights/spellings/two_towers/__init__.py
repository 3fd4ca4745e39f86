"""CLIP and SigLIP as others spell them."""
