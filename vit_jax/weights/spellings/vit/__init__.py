"""Published names of Vision Transformers and hybrids."""
