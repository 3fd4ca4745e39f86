"""Image folders, tar files and lists of files, written as TFDS datasets."""
