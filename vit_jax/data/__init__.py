"""From a step number to a global batch; TensorFlow is used only here."""
