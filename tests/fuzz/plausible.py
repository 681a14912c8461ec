"""Manifests that follow the schema but contradict themselves, so that only later checks find it."""

import copy
from collections.abc import Callable
from random import Random
from typing import Any

from refemu import formats, units
from tests.fuzz.mutate import VALUES

_ENCODINGS = ("uint", "int", "f16", "f32", "x", *(name.lower() for name in formats.constants()))
_FUNCTIONS = ("model.run", "testing.hold", "os:system", "x")
_SOURCE = {
    "model": "tiny",
    "weights_sha256": "0" * 64,
    "scheme": "olive-4",
    "scheme_config": {},
    "text_sha256": "0" * 64,
    "first_token": 0,
    "tokens": 2,
    "token_ids": [1, 2],
}

Manifest = dict[str, Any]


def changed(rng: Random, told: Manifest) -> Manifest:
    """A manifest with one to four wrong claims that its schema allows."""
    told = copy.deepcopy(told)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice(_CLAIMS)(rng, told)
    return told


def _unit(rng: Random, told: Manifest) -> None:
    told["unit"] = rng.choice(units.names())
    told["name"] = f"{told['unit']}-{rng.choice((*units.find(told['unit']).configs, 'x'))}"


def _config(rng: Random, told: Manifest) -> None:
    told["name"] = f"{told['unit']}-{rng.choice(('x', 'paper', '-', '_'))}"


def _encoding(rng: Random, told: Manifest) -> None:
    entry = rng.choice(told["arrays"])
    entry["encoding"], entry["signed"] = rng.choice(_ENCODINGS), rng.random() < 0.5


def _width(rng: Random, told: Manifest) -> None:
    entry = rng.choice(told["arrays"])
    entry["bits"] = rng.choice((1, 8, 9, 16, 17, 32, 33, 64))
    if rng.random() < 0.7:
        entry["dtype"] = next(f"u{size}" for size in (1, 2, 4, 8) if entry["bits"] <= 8 * size)


def _lanes(rng: Random, told: Manifest) -> None:
    entry = rng.choice(told["arrays"])
    entry["lanes"] = rng.choice((1, 2, 8, 32, 1 << 20, 1 << 60))
    if rng.random() < 0.7:
        entry["shape"] = [told["rows"], *([entry["lanes"]] if entry["lanes"] > 1 else [])]


def _array(rng: Random, told: Manifest) -> None:
    """One array more or fewer, or with another role or name."""
    entry, arrays = rng.choice(told["arrays"]), told["arrays"]
    how = rng.randrange(4)
    if how == 0:
        arrays.remove(entry)
    elif how == 1:
        arrays.append({**entry, "name": rng.choice(("out.x", "in.x", "st.x", "flags", entry["name"], "out.q.care"))})
    elif how == 2:
        entry["role"] = rng.choice(("stimulus", "expected", "state", "mask", "flags"))
    else:
        entry["name"] = rng.choice(("out.", ".", "in.x.1", "out.x.care", "x", "out.in"))


def _rows(rng: Random, told: Manifest) -> None:
    """Cases of different lengths, and the number of rows that follows."""
    entry = rng.choice(told["cases"])
    entry[rng.choice(("cases", "rows"))] = rng.choice((1, 2, 7, 10**9, 10**18))
    row = 0
    for one in told["cases"]:
        one["first"], row = row, row + one["cases"] * one["rows"]
    if rng.random() < 0.8:
        told["rows"] = told["min_rows"] = row
        for array in told["arrays"]:
            array["shape"][0] = row


def _case(rng: Random, told: Manifest) -> None:
    entry = rng.choice(told["cases"])
    key = rng.choice(("kind", "why", "decision", "source"))
    entry[key] = {
        "kind": rng.choice(("paper", "edge", "random", "exhaustive", "model")),
        "why": rng.choice(("x", "\0é")),
        "decision": "D-x",
        "source": {"layer": rng.choice((0, [], {}))},
    }[key]


def _timing(rng: Random, told: Manifest) -> None:
    told["timing"] = rng.choice(("event", "combinational"))


def _seeds(rng: Random, told: Manifest) -> None:
    entry = {
        "function": rng.choice(_FUNCTIONS),
        "seed": rng.choice((0, 7, 10**30, 10**4000)),
        "seeds": rng.choice((1, 2, 10**9, 10**30)),
    }
    told["generator"] = rng.choice(({"random": entry}, {**told["generator"], "random": entry}))


def _model(rng: Random, told: Manifest) -> None:
    """Cases from a run of a model, or from something else."""
    entry = {"function": rng.choice(_FUNCTIONS), "seed": 0}
    if rng.random() < 0.3:
        entry["layer"] = rng.choice((0, 10**9, 10**30))  # type: ignore[assignment]
    told["generator"] = {**told["generator"], "model": entry}
    told["source"] = copy.deepcopy(_SOURCE)
    told["source"][rng.choice(sorted(_SOURCE))] = rng.choice(
        [["x"], [10**30], "olive-4:x", [1] * 999]
        + [copy.deepcopy(value) for value in VALUES if type(value) is not float]
    )


def _flags(rng: Random, told: Manifest) -> None:
    told["flags"] = {rng.choice(("TIE", "", "x" * 99)): {"bit": rng.choice((0, 7)), "why": rng.choice(("", "D-x-1"))}}


def _exports(rng: Random, told: Manifest) -> None:
    if rng.random() < 0.5:
        told["hex"] = {}
    for one in told["hex"].values():
        field = rng.choice(one["fields"])
        field[rng.choice(("lane", "lsb"))] = rng.choice((0, 1, 10**9))


def _free(rng: Random, told: Manifest) -> None:
    """Fields whose values the schema does not restrict."""
    told[rng.choice(("config", "source"))] = {"x": rng.choice([value for value in VALUES if type(value) is not float])}
    told["seed"] = rng.choice((0, 1, 1 << 64, 10**4000))


_CLAIMS: tuple[Callable[[Random, Manifest], None], ...] = (
    _encoding,
    _width,
    _lanes,
    _array,
    _unit,
    _config,
    _encoding,
    _width,
    _lanes,
    _array,
    _rows,
    _case,
    _timing,
    _seeds,
    _model,
    _flags,
    _exports,
    _free,
)
