"""The outlier decoder: an abfloat code and a bias to an exponent-integer pair."""

from refemu.units.olive.outlier_decoder.outlier_decoder import *
from refemu.units.olive.outlier_decoder.outlier_decoder import __all__ as __all__
