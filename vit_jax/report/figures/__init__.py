"""Figures as inline SVG; colours come from the page, so dark mode works."""
