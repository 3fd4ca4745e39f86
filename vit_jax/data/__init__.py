"""From a step number to a global batch; the only home of TensorFlow."""
