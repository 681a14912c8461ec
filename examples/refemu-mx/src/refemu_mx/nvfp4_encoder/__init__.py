"""The NVFP4 encoder: 16 float32 values to one E4M3 scale and 16 E2M1 codes, under one float32 factor of the tensor."""

from refemu_mx.nvfp4_encoder.nvfp4_encoder import *
from refemu_mx.nvfp4_encoder.nvfp4_encoder import __all__ as __all__
