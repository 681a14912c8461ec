"""Models by name: the catalogue, downloads, and the folder of downloaded files."""
