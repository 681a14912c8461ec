"""The controller of the flexible data generation flow: the order of fetches, and the dispatchers' addresses."""

from refemu.units.harmonia.fdgf.fdgf import *
from refemu.units.harmonia.fdgf.fdgf import __all__ as __all__
