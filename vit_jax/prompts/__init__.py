"""Words for classes: their names, and the sentences they are put into."""
