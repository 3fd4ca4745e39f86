"""ConvNeXt and ConvNeXt V2."""
