"""The code of mixes, as one object; each part is computed by its own scheme."""

from collections.abc import Iterator
from typing import Any

from refemu.models.machine.report import Call, Cost
from refemu.models.schemes.kind import SchemeKind, kind_of
from refemu.models.schemes.mix.config import Mix
from refemu.models.schemes.mix.prepare import prepare
from refemu.models.schemes.scheme import Half


def tapped(config: Mix, half: Half | None) -> tuple[str, ...]:
    """The units whose ports a run under `config` can show, in alphabetical order. half: not used."""
    names: set[str] = set()
    for part in config.parts:
        mine: Half = "attention" if part is config.attention else "linear"
        shown = kind_of(part.scheme).taps
        names.update(shown(part.scheme, mine) if shown else ())
    return tuple(sorted(names))


def costs(prepared: Any, layer: int, call: Call) -> Iterator[tuple[str, Cost]]:
    """Cost of a call by the scheme of its part; raises Refused as that scheme does."""
    part = prepared.outer_part if call.part == "head" else prepared.linear_parts.get(layer)
    if call.part == "attention":
        q, cache = call.inputs
        part, call = prepared.attention_part, Call("attention", (prepared.queries(layer, q), cache), call.output)
    part_cost = kind_of(part.config).part_cost
    assert not isinstance(part_cost, str)  # a reason is an error of `registry.costs`
    yield from part_cost(part, layer, call)


SCHEME = SchemeKind(config=Mix, prepare=prepare, taps=tapped, cost=costs)
