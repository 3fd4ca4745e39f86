"""Two towers, for images and text, with a shared embedding space."""
