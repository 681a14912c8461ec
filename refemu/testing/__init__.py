"""Test tools for other designs: hypothesis strategies, comparison of bits, saved counterexamples.

    from hypothesis import given
    from refemu.testing import hold, inputs

    @given(inputs("ovp_encoder", "int4"))
    def test_my_encoder(stimulus):
        hold("ovp_encoder", "int4", stimulus, pair=my_encoder(stimulus["value"]))

Importing this module imports nothing: hypothesis and the units are loaded by what is used. Installed, refemu registers
itself with hypothesis (`st.from_type(OvpTensor)` works) and with pytest (`--refemu-save`, fixture `golden`).
"""

import importlib
from typing import TYPE_CHECKING

from refemu.registration import register as register

if TYPE_CHECKING:
    from refemu.testing.blocks import codebooks, tensors
    from refemu.testing.compare import assert_bits_equal, hold
    from refemu.testing.machines import PageManagerMachine
    from refemu.testing.protocol import UnitRule, unit_protocol, unit_rules
    from refemu.testing.strategies import codes, float16s, float32s, inputs, port_values

__all__ = [
    "PageManagerMachine",
    "UnitRule",
    "assert_bits_equal",
    "codebooks",
    "codes",
    "float16s",
    "float32s",
    "hold",
    "inputs",
    "port_values",
    "tensors",
    "unit_protocol",
    "unit_rules",
]

_HOME = {
    "PageManagerMachine": "machines",
    **dict.fromkeys(("assert_bits_equal", "hold"), "compare"),
    **dict.fromkeys(("UnitRule", "unit_protocol", "unit_rules"), "protocol"),
    **dict.fromkeys(("codebooks", "tensors"), "blocks"),
    **dict.fromkeys(("codes", "float16s", "float32s", "inputs", "port_values"), "strategies"),
}


def __getattr__(name: str) -> object:
    """Import the module that a public name lives in, at its first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'refemu.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(f"refemu.testing.{_HOME[name]}"), name)
