"""Published names of Swin Transformers."""
