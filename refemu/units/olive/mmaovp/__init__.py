"""The instruction mmaovp: D = A x B + C on a tile of pairs, m8n8k32 for 4-bit and m8n8k16 for 8-bit types."""

from refemu.units.olive.mmaovp.mmaovp import *
from refemu.units.olive.mmaovp.mmaovp import __all__ as __all__
