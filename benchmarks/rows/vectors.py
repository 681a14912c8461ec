"""Vectors generated, written, read, checked and compared per second; examples of the strategies per second.

For scale: TestFloat's generator, a C program, writes 5.7 million vectors of f16_add a second at level 2, without a
manifest or hashes.
"""

import importlib.util
import io
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pairs import Row, pairs, size
from refemu.golden.compare import answer_files
from refemu.golden.compare.check import check_files
from refemu.golden.compare.diff import compare
from refemu.golden.files import npz, sets, store
from refemu.golden.make import build, generate
from refemu.units import find

UNIT, CONFIG, KINDS = "ovp_decoder", "int8", ("exhaustive",)
EXAMPLES = 60


def made() -> dict[str, bytes]:
    """Every file of a set of 65,536 vectors: cases, answers by the compiled form, manifest and hashes."""
    unit = find(UNIT)
    blocks, how = generate.collect(unit, CONFIG, KINDS, 0, ())
    manifest, arrays = build.build(unit, CONFIG, blocks, generator=how)
    return sets.render(manifest, arrays)


def saved(arrays: dict[str, np.ndarray]) -> bytes:
    """The same arrays by NumPy."""
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def rated(row: Row, count: int, unit: str = "vectors") -> Row:
    """`row` with our rate in its text."""
    return replace(
        row,
        what=f"{row.what}: {count / row.ours_s / 1e6:.3g} M {unit}/s"
        if unit == "vectors"
        else f"{row.what}: {count / row.ours_s:,.0f} {unit}/s",
    )


def vectors() -> list[Row]:
    """A set of 65,536 vectors (every pair of 8-bit codes), from the cases to a comparison with an answer."""
    files = made()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / f"{UNIT}-{CONFIG}"
        store.replace(place, files)
        golden = sets.load(place)
        arrays = dict(golden.arrays)
        data, plain = files[sets.VECTORS], saved(arrays)
        answer = answer_files.Answer({name: array for name, array in arrays.items() if name.startswith("out.")}, {})
        rows = [
            pairs(
                "VEC-MAKE",
                "make cases, answers, hashes, files",
                "numpy.savez of the answers",
                lambda: saved(arrays),
                made,
                lambda theirs, ours: ours == files and theirs == plain,
            ),
            pairs(
                "VEC-WRITE",
                "write vectors.npz",
                "numpy.savez",
                lambda: saved(arrays),
                lambda: npz.to_bytes(arrays),
                lambda theirs, ours: same(npz.read(theirs, ""), npz.read(ours, "")),
            ),
            pairs(
                "VEC-LOAD",
                "load with every check",
                "np.load of all arrays",
                lambda: read(plain),
                lambda: sets.load(place).arrays,
                same,
            ),
            pairs(
                "VEC-CHECK",
                "regenerate and compare each byte",
                "np.load, array_equal",
                lambda: same(read(plain), arrays),
                lambda: check_files(str(place), files).findings,
                lambda theirs, ours: theirs and not ours,
            ),
            pairs(
                "VEC-DIFF",
                "compare an answer",
                "np.array_equal of each array",
                lambda: all(np.array_equal(arrays[name], array) for name, array in answer.arrays.items()),
                lambda: compare(golden, answer).equal,
                lambda theirs, ours: theirs and ours,
            ),
        ]
        assert data == npz.to_bytes(arrays)
    return [rated(row, golden.rows) for row in rows]


def read(data: bytes) -> dict[str, np.ndarray]:
    """Arrays that NumPy reads."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return dict(archive)


def same(some: Any, others: Any) -> bool:
    """Equal names and arrays."""
    return some.keys() == others.keys() and all(np.array_equal(some[name], others[name]) for name in some)


def examples() -> int:
    """Examples that a call draws."""
    return size(EXAMPLES, 3)


def drawn(strategy: Any) -> Callable[[], int]:
    """A call that draws `examples()` examples and counts them."""
    from hypothesis import HealthCheck, Phase, given, settings

    seen = []

    @settings(
        max_examples=examples(),
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(value: Any) -> None:
        seen.append(value is not None)

    def call() -> int:
        seen.clear()
        draw()
        return len(seen)

    return call


def strategies() -> list[Row]:
    """Drawing examples, against hypothesis's own strategies for arrays of these shapes; no rows without hypothesis."""
    if importlib.util.find_spec("hypothesis") is None:
        return []
    from hypothesis import strategies as st
    from hypothesis.extra import numpy as hnp

    from refemu.formats import OVP_INT4
    from refemu.testing import float16s, inputs, tensors

    def lanes(names: dict[str, tuple[str, tuple[int, ...]]]) -> Any:
        return st.fixed_dictionaries({name: hnp.arrays(dtype, shape) for name, (dtype, shape) in names.items()})

    rows = [
        pairs(
            "VEC-F16",
            "float16s(1024)",
            "hnp.arrays(float16, 1024)",
            drawn(hnp.arrays(np.float16, 1024, elements=st.floats(width=16, allow_nan=False))),
            drawn(float16s(1024)),
            enough,
            count=3,
        ),
        pairs(
            "VEC-PORTS",
            "inputs('ovp_decoder')",
            "hnp.arrays for its ports",
            drawn(lanes(dict.fromkeys(("pair", "bias"), ("uint8", (8,))))),
            drawn(inputs("ovp_decoder")),
            enough,
            count=3,
        ),
        pairs(
            "VEC-PE",
            "inputs('bfp_pe'), 133 lanes a row",
            "hnp.arrays for its ports",
            drawn(
                lanes(
                    dict.fromkeys(("a_sign", "a_mag", "b", "b_sign"), ("uint8", (8, 32)))
                    | dict.fromkeys(("mode", "clear", "a_exp", "b_exp"), ("uint8", (8,)))
                    | {"w_scale": ("uint16", (8,))}
                )
            ),
            drawn(inputs("bfp_pe")),
            enough,
            count=3,
        ),
        pairs(
            "VEC-TENSOR",
            "tensors(OVP_INT4), 8 values",
            "hnp.arrays(float32, 8)",
            drawn(hnp.arrays(np.float32, 8)),
            drawn(tensors(OVP_INT4)),
            enough,
            count=3,
        ),
    ]
    return [rated(row, examples(), "examples") for row in rows]


def enough(theirs: int, ours: int) -> bool:
    """As many examples as asked for."""
    return theirs >= examples() <= ours


ROWS = {"VEC-MAKE VEC-WRITE VEC-LOAD VEC-CHECK VEC-DIFF": vectors, "VEC-F16 VEC-PORTS VEC-PE VEC-TENSOR": strategies}
