"""Online K offsets: half of the signed peak of the widest channels of the first tokens, subtracted from every key."""

from refemu.units.harmonia.k_offset.k_offset import *
from refemu.units.harmonia.k_offset.k_offset import __all__ as __all__
