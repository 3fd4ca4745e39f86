"""Published names of ConvNeXts."""
