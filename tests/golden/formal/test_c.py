"""The C reference equals the compiled form on golden cases, and a wrong one does not."""

import ctypes
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from refemu.golden.formal import c
from refemu.golden.formal.reference import Reference
from refemu.prove import selfcheck
from refemu.prove.lift import Lift, name_of
from refemu.units.ports import Port
from tests import sanitizers
from tests.golden.formal.formal_references import DESIGNS, needs_cc, needs_solver, reference_of

CASES = 20  #: of each block of stimuli
pytestmark = [pytest.mark.long, needs_solver, needs_cc]


def rows(lifted: Lift) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Variables, and the words that the compiled form gives, for golden cases."""
    unit, ports = lifted.unit, lifted.device.ports
    before, after = list[dict[str, np.ndarray]](), list[dict[str, np.ndarray]]()
    for kind in selfcheck.KINDS:
        for block in unit.stimuli(lifted.config, kind, 0):  # type: ignore[arg-type]
            inputs = {name: array[:CASES] for name, array in block.inputs.items()}
            result = unit.evaluate(lifted.config, inputs)  # type: ignore[arg-type]
            before.append(selfcheck.variables(lifted, inputs, result))
            lanes: dict[str, np.ndarray] = {}
            for port in (*ports.outputs, *ports.state):
                lanes |= selfcheck.words(port, getattr(result, port.name))
            after.append(lanes)
    first, second = (
        {key: np.concatenate([each[key] for each in group]) for key in group[0]} for group in (before, after)
    )
    return first, second


def words_of(lanes: Mapping[str, np.ndarray], port: Port, prefix: str = "") -> np.ndarray:
    """Rows of a port as its C type."""
    names = [name_of(port, lane, prefix) for lane in range(port.count)]
    return np.stack([lanes[name] for name in names], axis=1).astype(f"u{port.dtype.itemsize}")


def differences(text: str, reference: Reference, folder: Path) -> int:
    """Rows for which the C text differs from the compiled form, or says that they are illegal."""
    source, library = folder / "reference.c", folder / "reference.so"
    source.write_text(text)
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O1"]
    flags += sanitizers.flags("cc", sanitizers.UNDEFINED)
    subprocess.run(["cc", *flags, "-o", library, source], check=True)
    function = getattr(ctypes.CDLL(str(library)), f"{reference.unit.name}_ref")
    function.restype = ctypes.c_uint8
    before, after = rows(reference.lifted)
    ports = reference.lifted.device.ports
    given = [words_of(before, port) for port in ports.inputs]
    given += [words_of(before, each.port, "q_") for each in reference.registers if each.read]
    outputs = (*ports.outputs, *ports.state)
    total = len(given[0])
    answers = [np.zeros((total, port.count), f"u{port.dtype.itemsize}") for port in outputs]
    pointers = [each.ctypes.data for each in (*given, *answers)]
    strides = [each.strides[0] for each in (*given, *answers)]
    wrong = np.zeros(total, bool)
    for row in range(total):
        places = (ctypes.c_void_p(start + row * step) for start, step in zip(pointers, strides, strict=True))
        wrong[row] = not function(*places)
    for port, answer in zip(outputs, answers, strict=True):
        wrong |= (answer != words_of(after, port)).any(axis=1)
    assert total > 30
    return int(wrong.sum())


@pytest.mark.parametrize("spec", [*DESIGNS, "olive_pe8", "orizuru:n8", "flint_decoder", "index_counter"])
def test_c_equals_compiled_form(spec: str, tmp_path: Path) -> None:
    reference = reference_of(spec)

    assert differences(c.text(reference), reference, tmp_path) == 0


def test_wrong_c_differs_from_compiled_form(tmp_path: Path) -> None:
    reference = reference_of("olive_mac:wrap")
    text = c.text(reference)
    wrong = text.replace("^ 0x8ull", "^ 0x4ull", 1)

    assert wrong != text and differences(wrong, reference, tmp_path) > 0


def test_c_has_no_loops_and_no_pointers() -> None:
    body = c.text(reference_of("olive_mac:wrap")).partition("*/")[2]

    assert not any(word in body for word in ("for (", "while", "if (", "goto", "float", "double"))
    assert all(line.count("[") for line in body.partition("{")[0].splitlines() if "uint" in line and "(" not in line)
