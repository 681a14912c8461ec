"""Models by name: the catalogue, downloads, and the folder that keeps them."""
