"""Initial-local bit allocation: the first and the latest tokens have `high` bits, all others `low`."""

from refemu.units.harmonia.bit_allocator.bit_allocator import *
from refemu.units.harmonia.bit_allocator.bit_allocator import __all__ as __all__
