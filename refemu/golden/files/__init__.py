"""File formats of golden vectors: npz, hex, binary, headers, CSV, JSONL, VCD, manifests."""
