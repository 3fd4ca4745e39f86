"""Load, save and initialise from a checkpoint of any form."""
