"""Search of image folders by texts and images, with an index on disk."""
