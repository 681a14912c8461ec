"""The classes of a prompt's tokens - pruned, low or high precision, window - and their order in the pages."""

from refemu.units.leankv.prompt_compressor.prompt_compressor import *
from refemu.units.leankv.prompt_compressor.prompt_compressor import __all__ as __all__
