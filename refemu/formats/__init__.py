"""Number formats: element formats, block formats and their ready constants. Knows no unit and no numba."""

import lazy_loader

from refemu import registration
from refemu.formats.structure import structure as structure

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

registration.register()
