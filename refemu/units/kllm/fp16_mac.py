"""The FP16 multiply-accumulate unit of a lane: y = acc + a * b, one step of the sequential sum of `arith.dot`.

Paper: [kllm §IV-A, Table I]: 32 of them a lane, for the reduction, the sparse path, the merge and the clustering.
Decisions: D-kllm-3 (two roundings, not one: the product is rounded, then the sum), D-arith-18 (`overflow` is not IEEE's
flag: it stays 0 where a product overflows and meets an infinity or a NaN).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from refemu.arith.checks import require_choice
from refemu.arith.scalar32 import odd_sum, pattern16, value16
from refemu.units.kllm.cases import fp16_mac as fp16_mac_cases
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Result, Stepped
from refemu.units.unit import Config, Flag, RunFunction, Unit

__all__ = ["ONE", "ROUNDINGS", "UNIT", "Fp16Mac", "Rounding", "State", "run"]


Rounding = Literal["fp16", "fp16_fma"]  #: Rounding of a multiply-accumulate: twice, or once
ROUNDINGS: tuple[Rounding, ...] = get_args(Rounding)  #: The choices of `Rounding`
ONE = 0x3C00  #: Word of 1: a factor with which the unit only adds
EXPONENT = 0x7C00  #: Exponent field of a word: all ones in infinities and NaN


@dataclass(frozen=True)
class State:
    """Ports after one step, and what happened since reset."""

    event: str  #: "reset" or "mac"
    index: int  #: number of the step, -1 for the reset
    a: int
    b: int
    acc: int
    product: int  #: a * b rounded; of the fused unit only for looking at
    y: int
    overflow: int
    macs: int
    overflows: int


class Fp16Mac(Stepped[State]):
    """FP16 multiply-accumulate unit: one event is one multiplication and one addition.

    References
    ----------
    [kllm §IV-A, Table I]
    """

    name = "fp16_mac"

    def __init__(self, rounding: Rounding = "fp16") -> None:
        """Configure the unit.

        Parameters
        ----------
        rounding : {"fp16", "fp16_fma"}
            "fp16" computes r16(acc + r16(a * b)), "fp16_fma" r16(acc + a * b) (D-kllm-3).

        Raises
        ------
        Refused
            An unknown rounding.
        """
        self.rounding = require_choice(rounding, ROUNDINGS, self.name, "rounding")
        self.ports = PORTS
        self.state: State = self.reset(State)

    def step(self, a: int, b: int, acc: int) -> State:
        """Execute one step on fp16 words."""
        return self._open(*self.accept(a, b, acc))

    def _open(self, a: int, b: int, acc: int) -> State:
        product, y = self.multiply_add(a, b, acc)
        overflow = int(_is_finite(a) and _is_finite(b) and _is_finite(acc) and not _is_finite(y))
        self.state = self.latched(
            a,
            b,
            acc,
            event="mac",
            product=product,
            y=y,
            overflow=overflow,
            macs=self.state.macs + 1,
            overflows=self.state.overflows + overflow,
        )
        return self.state

    def multiply_add(self, a: int, b: int, acc: int) -> tuple[int, int]:
        """Compute one step on fp16 words without checking them; the State stays.

        Parameters
        ----------
        a, b : int
            Words of the factors.
        acc : int
            Word of the addend.

        Returns
        -------
        product : int
            Word of the rounded product.
        y : int
            Word of the sum.
        """
        exact = value16(a) * value16(b)  # 22 bits
        product = pattern16(exact)
        if self.rounding == "fp16":
            return product, pattern16(value16(acc) + value16(product))  # 40 bits: exact before the rounding
        return product, pattern16(odd_sum(exact, value16(acc)))

    def accumulate(self, factors: Iterable[tuple[int, int]]) -> int:
        """Add up products of fp16 words from +0 on, one step each, without checking them; the State stays.

        Parameters
        ----------
        factors : iterable of tuple of 2 int
            Words `a` and `b` of every step, in order.

        Returns
        -------
        int
            Word of the sum.
        """
        y = 0
        for a, b in factors:
            _, y = self.multiply_add(a, b, y)
        return y


def _is_finite(word: int) -> bool:
    return word & EXPONENT != EXPONENT


PORTS = Ports(
    inputs=tuple(
        Port(name, 16, encoding="f16", meaning=meaning)
        for name, meaning in (
            ("a", "a factor, in the reduction the count"),
            ("b", "a factor, in the reduction the codebook's entry"),
            ("acc", "what the product is added to"),
        )
    ),
    outputs=(
        Port("y", 16, encoding="f16", meaning="acc + a * b"),
        Port("overflow", 1, meaning="finite operands, but y is not"),
    ),
    state=(Port("product", 16, encoding="f16", meaning="a * b rounded; the fused unit does not add it"),),
)


def ports(config: Mapping[str, Any]) -> Ports:
    """The same in every configuration."""
    return PORTS


UNIT: Unit[State, Result] = Unit(
    name="fp16_mac",
    paper="kllm §IV-A, Table I",
    meaning="multiply-accumulate in fp16, y = acc + a * b",
    configs={"paper": Config(rounding="fp16"), "fma": Config(rounding="fp16_fma")},
    ports=ports,
    unit_class=Fp16Mac,
    cases=fp16_mac_cases.cases,
    counters=("macs", "overflows"),
    mark=fp16_mac_cases.mark,
    flags={"OVERFLOW": Flag(0, "finite operands whose product or sum leaves fp16")},
)
run: RunFunction[Result] = UNIT.run
