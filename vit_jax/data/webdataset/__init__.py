"""Tar files in webdataset's format."""
