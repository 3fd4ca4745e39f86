"""Image folders, tar files and lists of files, converted to TFDS datasets."""
