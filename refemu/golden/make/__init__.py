"""Generation of sets of golden vectors, and regeneration from their manifests."""
