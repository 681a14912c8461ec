"""The library of structural faults: coverage injects them, and a diagnosis names them."""
