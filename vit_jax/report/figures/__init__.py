"""Figures as inline SVG, coloured by the page, and as PNG files.

They are our own because a page takes its colours from the reader's light or
dark theme and names each point to a mouse or a screen reader, which the SVG of
a plotting library does not, and because such a library would be one more to
install for every run.
"""
