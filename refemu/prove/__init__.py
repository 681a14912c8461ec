"""Units as terms of bit vectors: lifted from their readable text, checked, and compared with designs by a solver."""
