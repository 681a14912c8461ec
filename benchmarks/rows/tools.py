"""Sets, hex files, comparisons, steps and strategies against rates (performance rows PERF-29 to PERF-35)."""

import hashlib
import importlib.util
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.commands import REFEMU, process_row
from benchmarks.pairs import Absent, Row, absolute, pairs, size
from benchmarks.rows.arith import normal
from benchmarks.rows.vectors import drawn, examples
from refemu.formats import OVP_INT4
from refemu.golden.files import hexfile, npz, sets, store
from refemu.golden.make import build, generate
from refemu.golden.make.random_cases import random_cases
from refemu.golden.make.rows import evaluate
from refemu.units import find
from refemu.units.kllm import orizuru
from refemu.units.kllm.index_counter import IndexCounter
from refemu.units.kllm.orizuru import compiled as orizuru_compiled

UNIT, CONFIG = "ovp_decoder", "int8"
MILLION = 10**6


def write() -> list[Row]:
    """8 MiB of codes to the bytes of a set's archive, their hash, and a file; read back it is the same."""
    arrays = {"out.d": np.random.default_rng(1).integers(0, 1 << 16, 1 << 22).astype(np.uint16)}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "vectors.npz"

        def ours() -> str:
            data = npz.to_bytes(arrays)
            file.write_bytes(data)
            return hashlib.sha256(data).hexdigest()

        def good(digest: str) -> bool:
            data = file.read_bytes()
            return hashlib.sha256(data).hexdigest() == digest and np.array_equal(
                npz.read(data, "")["out.d"], arrays["out.d"]
            )

        return [
            absolute(
                "PERF-29",
                "write 8 MiB of vectors and hash them",
                "goal: 400 MB/s",
                (8 << 20) / 400e6,
                ours,
                good,
                clock=time.perf_counter,
            )
        ]


def cases() -> list[Row]:
    """Every pair of 8-bit codes to rows of a set, answers by the compiled form."""
    unit = find(UNIT)
    config, rows = unit.configs[CONFIG], 1 << 16

    def ours() -> list[object]:
        blocks = generate.collect(unit, CONFIG, ("exhaustive",), 0, ())[0]
        return [evaluate(unit, config, block, 0) for block in blocks]

    def good(blocks: list[object]) -> bool:
        want = [
            evaluate(unit, config, block, rows + 1)
            for block in generate.collect(unit, CONFIG, ("exhaustive",), 0, ())[0]
        ]
        return all(
            np.array_equal(a.arrays[name], b.arrays[name])  # type: ignore[attr-defined]
            for a, b in zip(want, blocks, strict=True)
            for name in a.arrays
        )

    return [
        absolute("PERF-30", f"{rows} cases of {UNIT} and their answers", "goal: 5 M cases/s", rows / 5e6, ours, good)
    ]


def lines() -> list[Row]:
    """Words of a narrow unit as lines for $readmemh, and words of 4,096 bits."""
    return [_lines(1 << 16, 2, 1.0), _lines(1 << 11, 256, 0.1)]


def _lines(count: int, lanes: int, goal: float) -> Row:
    """goal: of a million lines a second."""
    layout = hexfile.layout([{"name": "d", "lanes": lanes, "bits": 16, "signed": False}])
    arrays = {"d": np.random.default_rng(1).integers(0, 1 << 16, (count, lanes)).astype(np.uint16)}

    def same(text: bytes) -> bool:
        return np.array_equal(hexfile.read(text, layout, count, "")[0]["d"], arrays["d"])

    return absolute(
        "PERF-31",
        f"{count} hex lines of {16 * lanes} bits",
        f"goal: {goal:g} M lines/s",
        count / (goal * MILLION),
        lambda: hexfile.words(layout, arrays),
        same,
    )


def diff() -> list[Row]:
    """The command, from its start, over a set of a million cases and an answer that is right."""
    with tempfile.TemporaryDirectory() as folder:
        place, answer, rows = Path(folder) / f"{UNIT}-{CONFIG}", Path(folder) / "answer.npz", _million(Path(folder))
        return [
            process_row(
                "PERF-32",
                f"refemu diff of {rows} cases of {UNIT}",
                2.0,
                [*REFEMU, "diff", str(place), str(answer)],
                count=3,
            )
        ]


def _million(folder: Path) -> int:
    """A set and an answer below `folder`; returns its rows."""
    unit = find(UNIT)
    each = sum(len(next(iter(block.inputs.values()))) for block in random_cases(unit, CONFIG, 0, 1))
    blocks = random_cases(unit, CONFIG, 0, -(-size(MILLION, 1) // each))
    made = {"random": {"function": generate.function_of(unit), "seed": 0}}
    manifest, arrays = build.build(unit, CONFIG, blocks, generator=made)
    store.replace(folder / f"{UNIT}-{CONFIG}", sets.render(manifest, arrays))
    npz.write(folder / "answer.npz", {name: array for name, array in arrays.items() if name.startswith("out.")})
    return int(manifest["rows"])


def steps() -> list[Row]:
    """Readable units: a counter of 16 indices, stepped with a snapshot after each, and Orizuru from end to end."""
    index, x = np.random.default_rng(2).integers(0, 16, 2000).tolist(), normal((4096,), 5).astype(np.float16)

    def counted() -> tuple[int, ...]:
        device = IndexCounter(bits=4, lanes=1)
        for q in index:
            device.cycle(0, (q,), (1,))
            device.snapshot()
        return device.snapshot().count

    def same(ours: orizuru.Result) -> bool:
        return ours.equals(orizuru_compiled.pops(x, 20))

    return [
        absolute(
            "PERF-33",
            "index_counter, 16 counters: step and snapshot, 2000 times",
            "goal: 0.3 M steps/s",
            len(index) / 0.3e6,
            counted,
            lambda count: list(count) == np.bincount(index, minlength=16).tolist(),
        ),
        absolute(
            "PERF-33",
            "Orizuru, one token of 4096, k = 20 + 20, readable",
            "goal: 20 ms",
            0.02,
            lambda: orizuru.pops(x, 20),
            same,
            count=5,
        ),
    ]


def strategies() -> Sequence[Row | Absent]:
    """Examples of arrays of codes, as a property test draws them."""
    if importlib.util.find_spec("hypothesis") is None:
        return [Absent("PERF-34", "examples of strategies", "not installed: pip install -e '.[bench]'")]
    from refemu.testing import codes, float16s

    return [
        absolute(
            "PERF-34",
            f"{examples()} examples of {what}",
            "goal: 1 ms an example",
            examples() / 1e3,
            drawn(strategy),
            lambda count: count >= examples(),
            count=3,
        )
        for what, strategy in (("1,024 codes", codes(OVP_INT4.normal, 1024)), ("1,024 fp16 values", float16s(1024)))
    ]


def bits() -> list[Row]:
    """Equal tensors, compared bit by bit."""
    from refemu.testing import assert_bits_equal

    x = np.random.default_rng(0).standard_normal(size(1 << 24, 1 << 12)).astype(np.float16)
    y = x.copy()

    def ours() -> bool:
        assert_bits_equal(x, y)
        return True

    def rival() -> bool:
        return np.array_equal(x, y)

    what = "fp16 values compared, 2^24"
    return [pairs("PERF-35", what, "np.array_equal", rival, ours, lambda *same: all(same), 1 / 3)]


ROWS: dict[str, Callable[[], Sequence[Row | Absent]]] = {
    "PERF-29": write,
    "PERF-30": cases,
    "PERF-31": lines,
    "PERF-32": diff,
    "PERF-33": steps,
    "PERF-34": strategies,
    "PERF-35": bits,
}
