"""What a reference is made of, and what is rejected."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden.formal import reference
from refemu.prove import selfcheck, terms
from refemu.prove.lift import Lift
from refemu.prove.naming import Names, named_lift
from tests.golden.formal.formal_references import needs_solver, reference_of

pytestmark = [pytest.mark.long, needs_solver]


@pytest.mark.parametrize("spec", ["fp16_mac:paper", "fp2half:paper"])
def test_floating_point_is_exported_as_integers(spec: str) -> None:
    made = reference_of(spec)

    assert not any(each.op in terms.FP or not 0 < each.width <= 128 for each in terms.order(made.lifted.roots))
    assert made.checked >= 10_000


def test_square_root_is_rejected_with_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def rooted(*args: Any) -> tuple[Lift, Names]:
        lifted, names = named_lift(*args)
        root = terms.fp("fsqrt", terms.fp("value16", lifted.inputs["a"][0]))
        names.real[root.number] = (root, "unit.py:7")
        return replace(lifted, terms={**lifted.terms, "y": [terms.fp("pattern16", root)]}), names

    monkeypatch.setattr(reference, "named_lift", rooted)
    with pytest.raises(Refused, match=r"fp16_mac: unit.py:7: fsqrt of binary64, which has no form in integers"):
        reference.reference(*units.choose("fp16_mac:paper"))


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
