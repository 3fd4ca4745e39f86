"""ResNet-v2 as trained by Big Transfer."""
