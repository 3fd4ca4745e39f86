"""scikit-learn's handwritten digits as a TFDS dataset, without a network."""
