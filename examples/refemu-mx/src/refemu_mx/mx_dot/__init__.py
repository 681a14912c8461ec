"""The MX dot product: two blocks of 32 elements and their scales to one float32 [ocp MX 1.0 §6.2]."""

from refemu_mx.mx_dot.mx_dot import *
from refemu_mx.mx_dot.mx_dot import __all__ as __all__
