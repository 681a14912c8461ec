"""The MX encoder: a block of 32 float32 values to one E8M0 scale and 32 element codes [ocp MX 1.0 §6.3]."""

from refemu_mx.mx_encoder.mx_encoder import *
from refemu_mx.mx_encoder.mx_encoder import __all__ as __all__
