"""Near-duplicate images: hashes, search and exclusion."""
