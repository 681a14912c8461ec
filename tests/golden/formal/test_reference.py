"""What a reference is made of, and what is rejected."""

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden.formal import reference
from refemu.prove import selfcheck, terms
from tests.golden.formal.formal_references import needs_solver, reference_of

pytestmark = [pytest.mark.long, needs_solver]


def test_floating_point_is_rejected_with_the_line() -> None:
    with pytest.raises(Refused, match=r"fp2half: refemu/units/harmonia/fp2half/fp2half\.py:\d+: binary64"):
        reference_of("fp2half")


def test_registers_are_those_that_terms_read_and_outputs() -> None:
    registers = reference_of("olive_mac:wrap").registers

    assert [(each.port.name, each.read) for each in registers] == [
        ("shift", False),
        ("product", False),
        ("acc", True),
        ("overflow", False),
    ]


def test_masks_are_those_of_the_golden_set() -> None:
    made = reference_of("bfp_aligner:paper")
    unit, ports = units.find("bfp_aligner"), made.lifted.device.ports
    assert unit.care is not None
    for kind in selfcheck.KINDS:
        for block in unit.stimuli(made.lifted.config, kind, 0):  # type: ignore[arg-type]
            result = unit.evaluate(made.lifted.config, block.inputs)  # type: ignore[arg-type]
            masks = unit.care(made.lifted.config, block.inputs, result)
            rows = selfcheck.variables(made.lifted, block.inputs, result)
            count = len(next(iter(rows.values())))
            for port in ports.outputs:
                if port.name in made.care:
                    lanes = terms.evaluate(made.care[port.name], rows, count)
                    expected = np.asarray(masks[f"out.{port.name}"]).reshape(count, -1)
                    assert (np.stack(lanes, axis=1) == expected * np.uint64((1 << port.bits) - 1)).all()


def test_terms_that_disagree_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> int:
        raise selfcheck.Disagrees("concat: row 0")

    monkeypatch.setattr(selfcheck, "check", wrong)
    with pytest.raises(selfcheck.Disagrees):
        reference.reference(*units.choose("concat:a4"))
