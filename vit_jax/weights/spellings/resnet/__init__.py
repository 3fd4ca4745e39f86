"""Published names of Big Transfer ResNets."""
