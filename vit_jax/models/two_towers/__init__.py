"""Two towers, of images and of text, with one space of embeddings."""
