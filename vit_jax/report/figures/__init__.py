"""Figures as inline SVG, coloured by the page, and as PNG files."""
