"""Pictures of what a network has learned, as PNG files and one page."""
