"""Tables of published recipes that experiment files share."""
