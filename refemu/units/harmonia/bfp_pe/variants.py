"""Variants of the decisions of bfp_pe."""

from refemu.units.harmonia.bfp_pe import M8W4, BfpPe
from refemu.units.harmonia.variants import accumulation
from refemu.units.variant import Variant, overriding

Operand = tuple[tuple[int, ...], ...]  #: signs and magnitudes


def _sign_magnitude(old: BfpPe, self: BfpPe, shift: int) -> Operand:
    if self.state.mode != M8W4:
        return old._operand(shift)
    return tuple(code >> 3 for code in self.state.b), tuple(code & 7 for code in self.state.b)


def _zero_point(old: BfpPe, self: BfpPe, shift: int) -> Operand:
    if self.state.mode != M8W4:
        return old._operand(shift)
    return tuple(int(code < 8) for code in self.state.b), tuple(abs(code - 8) for code in self.state.b)


def _symmetric(old: BfpPe, self: BfpPe, shift: int) -> Operand:
    signs, magnitudes = old._operand(shift)
    return signs, tuple(min(each, 7) for each in magnitudes) if self.state.mode == M8W4 else magnitudes


_device = overriding(BfpPe)
VARIANTS: tuple[Variant, ...] = (
    *accumulation.variants(BfpPe),
    *accumulation.ANSWERS,
    _device("D-harmonia-14: INT4 codes are a sign and a magnitude", _operand=_sign_magnitude),
    _device("D-harmonia-14: INT4 codes are unsigned, with a zero point of 8", _operand=_zero_point),
    _device("D-harmonia-14: the INT4 code -8 counts as -7", _operand=_symmetric),
)
UNOBSERVABLE: dict[str, str] = {
    "D-harmonia-12": "Splitting a or b gives the same integer, since (16 h + l) x = 16 h x + l x, exact before the "
    "one conversion: no output depends on the operand that is split.",
    "D-harmonia-40": "A row of a set is one group; its sum is the same whether sub-PEs work one per slot or together; "
    "bfp_pe_array_clocked shows which of them work in an edge.",
    "D-harmonia-21": "A row of a set is a whole group. Slots and cycles say when its sums are made, which shows in "
    "st.slot and in counters, not in acc and flags after the group.",
}
