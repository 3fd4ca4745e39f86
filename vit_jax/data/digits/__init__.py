"""scikit-learn's handwritten digits as a TFDS dataset that needs no network."""
