"""Other answers to the decisions of outlier_decoder."""

from dataclasses import replace
from typing import Any

from refemu.arith.checks import Refused
from refemu.units.alternative import Alternative
from refemu.units.config import Config
from refemu.units.olive.outlier_decoder import OutlierDecoder, State, width_of_exponent

_OTHER = {(4, 3): (2, 5), (2, 5): (4, 3)}


def _other_format(config: Config) -> Config:
    sizes = config["exp_bits"], config["man_bits"]
    if sizes not in _OTHER:
        raise Refused("outlier_decoder: codes of 4 bits have one format")
    exp_bits, man_bits = _OTHER[sizes]
    bits = width_of_exponent(config)
    return Config(**{**config, "exp_bits": exp_bits, "man_bits": man_bits, "exponent_bits": bits})


class ZeroOfReserved(OutlierDecoder):
    """The reserved code has exponent 0."""

    def _open(self, *inputs: Any) -> State:
        state = super()._open(*inputs)
        self.state = state if state.base_int else replace(state, exponent=0)
        return self.state


class Saturating(OutlierDecoder):
    """An exponent beyond the port is its largest value."""

    def _open(self, *inputs: Any) -> State:
        state = super()._open(*inputs)
        exact = state.bias + ((state.code >> self.man_bits) & ((1 << self.exp_bits) - 1))
        self.state = replace(state, exponent=min(exact, (1 << self.exponent_bits) - 1))
        return self.state


ALTERNATIVES: tuple[Alternative, ...] = (
    Alternative("D-olive-14", "8-bit outliers have the other format, E4M3 for E2M5 or back", apply=_other_format),
    Alternative("D-olive-19", "the reserved code has exponent 0", variant=ZeroOfReserved),
    Alternative("D-olive-20", "an exponent beyond the port saturates", variant=Saturating),
)
