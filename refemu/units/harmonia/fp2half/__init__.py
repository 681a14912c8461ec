"""FP2Half: a column of FP32 results of the PE array becomes FP16."""

from refemu.units.harmonia.fp2half.fp2half import *
from refemu.units.harmonia.fp2half.fp2half import __all__ as __all__
