"""Cores with a pipeline or a handshake, right and with bugs that +BUG=<n> chooses at run time: one build serves all."""

import re
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import NamedTuple

from examples.rtl.benches import HERE, Design, call, export, make, program
from examples.rtl.planted import Held, fails, passes


class Core(NamedTuple):
    """A device around the unit's own RTL, the bench's variables for it, and its bugs in the order of +BUG, from 1."""

    design: Design
    top: str
    variables: tuple[str, ...]
    bugs: tuple[str, ...]

    @property
    def sources(self) -> list[Path]:
        """Its Verilog."""
        return [*(HERE / name for name in self.design.sources), HERE / f"{self.top}.v"]


ALIGNER = Design("bfp_aligner", "paper", ("bfp_aligner.v",))
CORES = (
    Core(
        ALIGNER,
        "bfp_aligner_pipelined",
        ("LATENCY=3",),
        (
            "answers a cycle late",
            "answers a cycle early",
            "signs are those of the next row",
            "a stage stalls for a cycle",
            "two answers are exchanged",
        ),
    ),
    Core(
        ALIGNER,
        "bfp_aligner_elastic",
        ("VALID=1", "RESET=5"),
        (
            "takes a row while full, and drops one",
            "repeats an answer that waited",
            "a reset leaves answers in it",
            "answers in another order",
            "gives an answer too many",
            "falls silent",
            "changes an answer that waits",
            "withdraws an answer that waits",
            "takes no row any more",
            "answers late by thousands of cycles",
        ),
    ),
    Core(
        Design("olive_systolic", "rows=4,cols=4,m=4,n=4,k=6,b=flint4", ("ovp_decoder.v",)),
        "olive_systolic_4x4",
        ("VALID=1", "RESET=5"),
        (
            "two rows and two columns enter together",
            "elements of a pair of A enter in the other order",
            "sums continue from product to product",
            "overflow is that of the last step",
            "answers before the far corner has all its products",
            "takes a product while it works on one",
            "illegal pairs of B are not seen",
            "sums saturate",
            "a reset leaves the product in work",
        ),
    ),
)


def held(core: Core, simulator: str, out: Path) -> Iterator[Held]:
    """The right core, then every bug, in one simulator; one build."""
    folder = export(core.design, out / core.top)
    words = [*core.variables, f"TOP={core.top}"]
    for number, bug in enumerate(("none", *core.bugs)):
        ran = run(core, folder, simulator, words, number)
        text = ran.stdout + ran.stderr
        right = (
            passes(core.design, ran) if number == 0 else fails(ran) and re.search(r"FAIL row \d+:", text) is not None
        )
        yield Held(core.design.set, simulator, f"{core.top}: {bug}", right, "" if right else text)


def run(core: Core, folder: Path, simulator: str, words: list[str], number: int) -> "CompletedProcess[str]":
    """One simulation; the first builds."""
    target, inner = simulator.partition("-")[::2]
    arguments = [*words, f"ARGS=+BUG={number}"]
    if target == "cocotb":
        return make(
            "cocotb", folder, core.sources, *arguments, f"SIM={inner}", *(["KEEP=1"] if number else []), quick=True
        )
    if number == 0:
        return make(target, folder, core.sources, *arguments, quick=True)
    names = {"LATENCY": "+LATENCY=", "RESET": "+RESET=", "VALID": "+VALID="}
    plus = [names[name] + value for name, value in (word.split("=") for word in core.variables)]
    return call([*program(core.design, target), f"+VEC={folder / core.design.set}", *plus, f"+BUG={number}"], folder)
