"""The stream of states reads back unchanged, and its size follows the changes."""

import random

import numpy as np
import pytest

from refemu.golden.view import encode
from refemu.units.ports import Port
from tests.golden.view import reader


def data_of(encoded: encode.Encoded, names: list[str]) -> dict[str, object]:
    fields = [
        {"name": each.port.name, "bits": each.port.bits, "signed": each.port.signed, "lanes": each.lanes}
        | {"first": each.first, "text": each.text}
        for each in encoded.layout
    ]
    stream = encode.text(encoded.stream)
    return {"stream": stream, "size": encoded.size, "events": encoded.events, "names": names, "fields": fields} | {
        "texts": encoded.texts
    }


def test_numbers_of_any_width_read_back() -> None:
    chance = random.Random(3)
    count = 150  # more than a block
    every = []
    for bits, lanes, signed in (
        (1, 9, False),
        (5, 3, True),
        (18, 4, True),
        (48, 1, False),
        (64, 2, False),
        (64, 1, True),
    ):
        low = -(1 << bits - 1) if signed else 0
        values = [tuple(chance.randrange(low, low + (1 << bits)) for _ in range(lanes)) for _ in range(count)]
        every.append(("inputs", Port(f"p{bits}{signed}", bits, lanes, signed), values))
    every.append(("state", Port("free", 64, signed=True), [(chance.randrange(-70000, 70000), 1) for _ in range(count)]))
    every.append(("state", Port("words", 64, signed=True), [("a", None) if at % 3 else () for at in range(count)]))
    encoded = encode.encode(every, [at % 2 for at in range(count)], list(range(count)), 1 << 20)
    found = reader.states(data_of(encoded, ["even", "odd"]))

    assert encoded.events == count
    for at, state in enumerate(found):
        assert (state["event"], state["operation"]) == (("even", "odd")[at % 2], at)
        assert state["words"] == ["a None" if at % 3 else "-"]
        for _, port, values in every[:-1]:
            assert tuple(state[port.name]) == values[at]


def test_events_stop_at_the_limit() -> None:
    chance = np.random.default_rng(1)
    values = [tuple(lanes) for lanes in chance.integers(0, 256, (1000, 100)).tolist()]
    every = [("inputs", Port("x", 8, 100), values)]
    encoded = encode.encode(every, [0] * 1000, [0] * 1000, 30_000)
    found = reader.states(data_of(encoded, ["event"]))

    assert 200 < encoded.events < 300 and len(encoded.stream) <= 30_010
    assert [tuple(state["x"]) for state in found] == values[: encoded.events]
    assert encode.encode(every, [0] * 1000, [0] * 1000, 10).events == 0


@pytest.mark.parametrize("bits", [1, 5, 16, 18, 32])
def test_events_of_2000_changed_bits_fit(bits: int) -> None:
    lanes = 2000 // bits
    words = np.random.default_rng(bits).integers(0, 1 << bits, (10_000, lanes)).tolist()
    every = [("outputs", Port("x", bits, lanes), list(map(tuple, words)))]
    encoded = encode.encode(every, [0] * 10_000, list(range(10_000)), 1 << 30)

    assert len(encode.text(encoded.stream)) < 4_000_000


def test_unchanged_events_take_few_bytes() -> None:
    every = [("inputs", Port("x", 32, 1000), [tuple(range(1000))] * 5000)]
    encoded = encode.encode(every, [0] * 5000, [0] * 5000, 1 << 20)

    assert len(encoded.stream) < 5_000
