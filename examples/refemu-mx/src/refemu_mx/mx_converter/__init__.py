"""The MX converter: a block of one element format to a block of another, rounded once [ocp MX 1.0 §6.3]."""

from refemu_mx.mx_converter.mx_converter import *
from refemu_mx.mx_converter.mx_converter import __all__ as __all__
