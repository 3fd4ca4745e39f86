"""ResNet-v2 as Big Transfer trains it."""
