"""One 16-input unit of Orizuru: the registers of both trees, which settle in one clock edge."""

from refemu.units.kllm.orizuru16.orizuru16 import *
from refemu.units.kllm.orizuru16.orizuru16 import __all__ as __all__
