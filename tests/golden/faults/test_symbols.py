"""Changes of words as terms: equal to the same changes of arrays, for every fault of the answers."""

from types import SimpleNamespace

import numpy as np
import pytest

from refemu.golden.faults import bits, lanes, symbols, words
from refemu.golden.files import fields
from refemu.prove import terms
from refemu.units.ports import Port

PORTS = [
    Port("flag", 1),
    Port("nibble", 4),
    Port("signed", 5, signed=True),
    Port("byte", 8, 3),
    Port("word", 16, 2, signed=True),
    Port("half", 16, encoding="f16"),
    Port("single", 32, encoding="f32"),
    Port("double", 32, 4),
]


def drawn(port: Port) -> np.ndarray:
    """Words of a port, with those at which faults of floats differ."""
    some = np.random.default_rng(1).integers(0, 1 << port.bits, (64, port.count), np.uint64)
    if fields.holds_floats(port):
        edges = [0, 1, fields.infinity(port) - 1, fields.infinity(port), fields.infinity(port) + 1, fields.nan(port)]
        some[: 2 * len(edges), 0] = [each | sign << (port.bits - 1) for each in edges for sign in (0, 1)]
    return some.astype(fields.dtype_of(port.bits))


@pytest.mark.parametrize("port", PORTS, ids=lambda port: port.name)
def test_terms_are_the_changed_words(port: Port) -> None:
    rows = SimpleNamespace(ports={f"out.{port.name}": port})
    name, codes = f"out.{port.name}", drawn(port)
    variables = [terms.variable(f"v_{lane}", port.bits) for lane in range(port.count)]
    values = {f"v_{lane}": codes[:, lane].astype(np.uint64) for lane in range(port.count)}
    faults = [*bits.faults(rows), *words.faults(rows), *lanes.faults(rows)]  # type: ignore[arg-type]
    tried = [fault for fault in faults if not fault.remembers]
    for fault in tried:
        new = fault.applied(rows, {name: symbols.of_port(variables, port)})[name]  # type: ignore[arg-type, dict-item]
        got = terms.evaluate(symbols.lanes_of(new, port), values, len(codes))  # type: ignore[arg-type]
        wanted = fault.applied(rows, {name: codes})[name]  # type: ignore[arg-type]
        assert np.array_equal(np.stack(got, axis=1), wanted), fault.id

    assert len(tried) > 2


def test_unknown_operations_are_rejected() -> None:
    one = symbols.of_port([terms.variable("v", 8)], PORTS[1])
    with pytest.raises(TypeError):
        one * one
    with pytest.raises(TypeError):
        np.cumsum(one)
