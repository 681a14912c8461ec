"""refemu: a bit-exact reference emulator of number formats and hardware units for LLM inference.

Layers, each importing only those to its left: `arith`, `formats`, `units`, `models`, `golden`, `cli`. `draw` stands
beside `models`.
"""

__version__ = "0.1.0"
