"""Making sets of golden vectors, and making them again from their manifests."""
