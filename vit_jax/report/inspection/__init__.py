"""Pictures of what a network has learned, as PNG files and a page."""
