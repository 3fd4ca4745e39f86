"""Published names of CLIP and SigLIP."""
