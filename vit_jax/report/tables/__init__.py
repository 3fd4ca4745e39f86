"""The paper's tables with our costs and measurements."""
