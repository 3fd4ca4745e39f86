"""Figures as inline SVG, coloured by the page, and as PNG files.

They are drawn here because a page takes its colours from the reader's light or
dark theme and labels each point for a mouse or a screen reader, unlike the SVG
of a plotting library, and because such a library would be one more dependency
of every run.
"""
