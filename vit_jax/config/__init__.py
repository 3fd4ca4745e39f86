"""The configuration schema and its resolution."""
