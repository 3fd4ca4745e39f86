"""Programs compiled or exported without the machine that runs them."""
