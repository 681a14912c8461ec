"""The shared aligner: from eight fp16 words under a given exponent to signs and magnitudes."""

from refemu.units.harmonia.bfp_aligner.bfp_aligner import *
from refemu.units.harmonia.bfp_aligner.bfp_aligner import __all__ as __all__
