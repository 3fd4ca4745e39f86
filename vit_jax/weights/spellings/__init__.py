"""Published names of parameters: one room a family, one file a form."""
