"""FP2Half: from a column of FP32 results of the PE array to FP16."""

from refemu.units.harmonia.fp2half.fp2half import *
from refemu.units.harmonia.fp2half.fp2half import __all__ as __all__
