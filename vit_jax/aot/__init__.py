"""Programs compiled or exported ahead of the machine that runs them."""
