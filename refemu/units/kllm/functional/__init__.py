"""The Functional Unit: exponentials, roots and reciprocals of fp16 values, and softmax from them."""

from refemu.units.kllm.functional.functional import *
from refemu.units.kllm.functional.functional import __all__ as __all__
