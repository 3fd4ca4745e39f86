"""Published parameter names: one package per family, one module per format."""
