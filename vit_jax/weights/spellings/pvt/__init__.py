"""Published names of Pyramid Vision Transformers."""
