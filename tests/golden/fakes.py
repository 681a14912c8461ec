"""Small units for vectors: `blender` is combinational, `meter` has a register, `inverter` is tiny."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.units import stepping
from refemu.units.ports import Port, Ports
from refemu.units.stimuli import Seeds
from refemu.units.unit import Cases, Config, Flag, Unit


@dataclass(frozen=True, eq=False)
class Blend(stepping.Result):
    """Result of `blender`."""

    both: np.ndarray
    ratio: np.ndarray
    odd: np.ndarray


def blend(first: Any, second: Any, *, overflow: str) -> Blend:
    """both = (first + second, first - second) in 5 signed bits; ratio = first / second in fp16; odd = lowest bit."""
    a, b = (np.asarray(values, np.int64) for values in (first, second))
    sums = np.stack([a + b, a - b], axis=-1)
    both = np.clip(sums, -16, 15) if overflow == "saturate" else ((sums + 16) & 31) - 16
    with np.errstate(all="ignore"):
        ratio = (a.astype(np.float32) / b.astype(np.float32)).astype(np.float16)
    return Blend(both, ratio, (a & 1).astype(np.bool_))


def _each(seed: Seeds) -> np.ndarray:
    return np.array(seed if isinstance(seed, range) else [seed])


def blend_cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """A worked example that begins with zeros, an edge that follows a decision, a sweep."""
    if kind == "paper":
        yield Cases(kind, "a worked example", {"first": np.array([0, 5]), "second": np.array([0, -3])})
    if kind == "edge":
        yield Cases(
            kind, "sums that leave 5 bits", {"first": np.array([15, 15]), "second": np.array([7, 6])}, "D-fake-1"
        )
    if kind == "random":
        words = (np.add.outer(_each(seed), np.arange(24) * 7919) & 255).reshape(-1)
        yield Cases(kind, "some of everything", {"first": words & 15, "second": (words >> 4) - 8})
    if kind == "exhaustive":
        yield Cases(
            kind, "every input", {"first": np.repeat(np.arange(16), 16), "second": np.tile(np.arange(16) - 8, 16)}
        )


BLENDER = Unit(
    name="blender",
    paper="a paper, Fig. 1",
    meaning="sum, difference and ratio",
    configs={"wrap": Config(overflow="wrap"), "saturate": Config(overflow="saturate")},
    ports=lambda config: Ports(
        inputs=(Port("first", 4), Port("second", 4, signed=True)),
        outputs=(
            Port("both", 5, 2, signed=True, meaning="sum and difference"),
            Port("ratio", 16, encoding="f16"),
            Port("odd", 1),
        ),
    ),
    run=blend,
    compiled_run="tests.golden.fakes:blend",
    unit_class=object,
    cases=blend_cases,
    flags={"OVERFLOW": Flag(0, "a sum left 5 bits"), "UNSPECIFIED": Flag(3, "follows a decision")},
    mark=lambda config, inputs, result: {"OVERFLOW": inputs["first"] + inputs["second"] > 15},
    care=lambda config, inputs, result: {"out.ratio": np.where(inputs["second"] == 0, 0, 0xFFFF)},
)


@dataclass(frozen=True, eq=False)
class Reading(stepping.Result):
    """Result of `meter`."""

    total: np.ndarray
    wide: np.ndarray


def read(add: Any, clear: Any, *, bits: int) -> Reading:
    """total: a sum modulo 2**bits, cleared by `clear`; wide: three lanes of 40 bits derived from it."""
    adds, clears = np.broadcast_arrays(np.asarray(add, np.int64), np.asarray(clear, np.int64))
    total, register = np.zeros(adds.shape, np.int64), np.zeros(adds.shape[:-1], np.int64)
    for at in range(adds.shape[-1]):
        register = np.where(clears[..., at] == 1, 0, register + adds[..., at]) & ((1 << bits) - 1)
        total[..., at] = register
    return Reading(total, np.stack([total, total << 30, (1 << 40) - 1 - total], axis=-1))


def meter_cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Two cases of three rows; three cases of two rows."""
    if kind == "paper":
        yield Cases(
            kind,
            "adds and clears",
            {"add": np.array([[0, 3, 7], [5, 1, 2]]), "clear": np.array([[0, 0, 0], [0, 1, 0]])},
        )
    if kind == "random":
        words = (np.add.outer(_each(seed), np.arange(6) * 31) & 15).reshape(-1, 2)
        yield Cases(kind, "some of everything", {"add": words & 7, "clear": words >> 3})


METER = Unit(
    name="meter",
    paper="a paper, Fig. 2",
    meaning="a sum with a register",
    configs={"w4": Config(bits=4)},
    ports=lambda config: Ports(
        inputs=(Port("add", 3), Port("clear", 1)),
        outputs=(Port("wide", 40, 3),),
        state=(Port("total", config["bits"]),),
    ),
    run=read,
    compiled_run="tests.golden.fakes:read",
    unit_class=object,
    cases=meter_cases,
    timing="event",
)


@dataclass(frozen=True, eq=False)
class Inverted(stepping.Result):
    """Result of `inverter`."""

    y: np.ndarray


def inverter_cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Three inputs."""
    if kind == "edge":
        yield Cases(kind, "ends", {"x": np.array([7, 0, 15])})


INVERTER = Unit(
    name="inverter",
    paper="none",
    meaning="all bits inverted",
    configs={"c": Config()},
    ports=lambda config: Ports((Port("x", 4),), (Port("y", 4),)),
    run=lambda x: Inverted(15 - np.asarray(x)),
    compiled_run="none",
    unit_class=object,
    cases=inverter_cases,
)

UNITS: Mapping[str, Unit] = {"blender": BLENDER, "meter": METER}
