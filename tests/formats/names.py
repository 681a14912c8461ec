"""The public names of the formats, as `from refemu.formats import *` binds them: what a repr evaluates in."""

from refemu import formats

PUBLIC = {name: getattr(formats, name) for name in formats.__all__}
