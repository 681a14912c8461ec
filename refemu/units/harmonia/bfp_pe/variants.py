"""Variants of the decisions of bfp_pe."""

from refemu.units.harmonia.bfp_pe import M8W4, BfpPe
from refemu.units.harmonia.variants import accumulation
from refemu.units.variant import Variant, choices


class SignMagnitude(BfpPe):
    """INT4 codes are a sign and three bits of magnitude."""

    def _operand(self, shift: int) -> tuple[tuple[int, ...], ...]:
        if self.state.mode != M8W4:
            return super()._operand(shift)
        return tuple(code >> 3 for code in self.state.b), tuple(code & 7 for code in self.state.b)


class ZeroPoint(BfpPe):
    """INT4 codes are unsigned, with a zero point of 8."""

    def _operand(self, shift: int) -> tuple[tuple[int, ...], ...]:
        if self.state.mode != M8W4:
            return super()._operand(shift)
        return tuple(int(code < 8) for code in self.state.b), tuple(abs(code - 8) for code in self.state.b)


class Symmetric(BfpPe):
    """The code -8 counts as -7: magnitudes have three bits."""

    def _operand(self, shift: int) -> tuple[tuple[int, ...], ...]:
        signs, magnitudes = super()._operand(shift)
        return signs, tuple(min(each, 7) for each in magnitudes) if self.state.mode == M8W4 else magnitudes


VARIANTS: tuple[Variant, ...] = (
    *choices("D-harmonia-7", "partial", "fp16", "fp32"),
    *choices("D-harmonia-8", "product", "fp16"),
    *accumulation.variants(BfpPe, lambda device: device.accumulator),
    *accumulation.ANSWERS,
    Variant("D-harmonia-14", "INT4 codes are a sign and a magnitude", unit_class=SignMagnitude),
    Variant("D-harmonia-14", "INT4 codes are unsigned, with a zero point of 8", unit_class=ZeroPoint),
    Variant("D-harmonia-14", "the INT4 code -8 counts as -7", unit_class=Symmetric),
)
UNOBSERVABLE: dict[str, str] = {
    "D-harmonia-12": "Splitting a or b gives the same integer, since (16 h + l) x = 16 h x + l x, exact before the "
    "one conversion: no output depends on the operand that is split.",
    "D-harmonia-40": "A row of a set is one group; its sum is the same whether sub-PEs work one per slot or together; "
    "bfp_pe_array_clocked shows which of them work in an edge.",
    "D-harmonia-21": "A row of a set is a whole group. Slots and cycles say when its sums are made, which shows in "
    "st.slot and in counters, not in acc and flags after the group.",
}
