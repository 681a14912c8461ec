"""The committed sets detect every variant of a decision that a unit lists, and `diff` names the decision."""

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import Refused, RefusedType
from refemu.golden.compare import answer_files
from refemu.golden.compare.diff import Difference, compare
from refemu.golden.files import sets
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import device as grade_device
from refemu.golden.grade.answers import Answers
from refemu.golden.make.rows import evaluate
from refemu.units import variant as other
from refemu.units.unit import Cases, Unit, Variant
from refemu.units.variant import Device
from tests.golden import committed


def others(unit: Unit, variant: Variant) -> dict[str, Device]:
    """The devices with the variant, by the ready configurations that they differ from."""
    devices = {name: other.device(unit, config, [variant]) for name, config in unit.configs.items()}
    return {name: device for name, device in devices.items() if device is not None}


def again(unit: Unit, at: int) -> bool:
    """Whether an earlier variant belongs to the same decision."""
    return unit.variants[at].decision in [each.decision for each in unit.variants[:at]]


#: one of each decision that a unit names, in slow runs all
VARIANTS = [
    pytest.param(unit, one, id=f"{unit.name}-{one.decision}-{at}", marks=[pytest.mark.slow] if again(unit, at) else [])
    for unit in map(units.find, units.names())
    for at, one in enumerate(unit.variants)
]
#: those whose explanation quick runs look at: a parameter, a class, a function on answers
EXPLAINED = ("ovp_encoder", "olive_edp", "concat", "bfp_aligner", "prefix_sum")
NAMED = [
    pytest.param(
        *each.values, id=each.id, marks=each.marks or [pytest.mark.slow] * (each.values[0].name not in EXPLAINED)
    )
    for each in VARIANTS
]
#: detected by no committed row: the products of the core's sets lack such a value
UNTOLD = (("harmonia_core", "D-harmonia-28"),)
ROWS = 3  #: fewest rows of some committed set that detect a variant


def telling(unit: Unit, variant: Variant) -> int:
    """Rows that detect the variant in the best of a unit's committed sets, counted up to ROWS."""
    best = 0
    for name, device in others(unit, variant).items():
        answers, count = answers_of.of_set(committed.read(f"{unit.name}-{name}")), 0
        for block in answers.blocks:
            try:
                count += np.count_nonzero(grade_device.wrong(Answers(unit, answers.config, [block]), device))
            except (Refused, RefusedType):
                continue
            if count >= ROWS:
                return count
        best = max(best, count)
    return best


@pytest.mark.committed
@pytest.mark.parametrize(("unit", "variant"), VARIANTS)
def test_every_variant_changes_three_committed_rows(unit: Unit, variant: Variant) -> None:
    assert (telling(unit, variant) >= ROWS) != ((unit.name, variant.decision) in UNTOLD)


def answers(unit: Unit, device: Device, golden: sets.Golden) -> dict[str, np.ndarray] | None:
    """A device's answer to the stimulus of a set; None if that is invalid for it."""
    made: dict[str, list[np.ndarray]] = {}
    for entry in golden.manifest["cases"]:
        inputs = sets.inputs(golden, unit, entry["first"], entry["cases"], entry["rows"])
        try:
            block = evaluate(unit, device.config, Cases(entry["kind"], entry["why"], inputs), device=device)
        except (Refused, RefusedType):
            return None
        for array in golden.manifest["arrays"]:
            if array["role"] == "expected":
                rows = block.arrays[array["name"]]
                made.setdefault(array["name"], []).append(rows.reshape(-1, *rows.shape[2:]))
    return {name: np.concatenate(parts) for name, parts in made.items()}


def difference(unit: Unit, variant: Variant) -> Difference | None:
    """The difference in the unit's set with the most rows that detect a device with the variant."""
    best, most = None, 0
    for name, device in others(unit, variant).items():
        golden = committed.read(f"{unit.name}-{name}")
        given = answers(unit, device, golden)
        if given is None or any(given[key].shape != golden.arrays[key].shape for key in given):
            continue
        rows = compare(golden, answer_files.Answer(given, {})).rows_differ
        if rows > most:
            best, most = (golden, given), rows
    return best and compare(best[0], answer_files.Answer(best[1], {}), True)


@pytest.mark.long
@pytest.mark.parametrize(("unit", "variant"), NAMED)
def test_variant_of_a_decision_is_named(unit: Unit, variant: Variant) -> None:
    told = difference(unit, variant)

    assert told, f"no golden set of {unit.name} tells a device apart for which {variant.says}"
    assert any(
        variant.decision in (each.id, *each.equivalent) and each.rows_explained == told.rows_differ
        for each in told.explanations
    ), told.explanations


def test_two_variants_at_once_are_named() -> None:
    """A pair encoder that retains the left outlier and rounds ties away from 0."""
    unit = units.find("ovp_encoder")
    left, away = (next(one for one in unit.variants if words in one.says) for words in ("left one", "half_away"))
    golden = committed.read("ovp_encoder-int4")
    device = other.device(unit, unit.configs["int4"], [left, away])
    assert device is not None
    given = answers(unit, device, golden)
    assert given is not None

    explanations = compare(golden, answer_files.Answer(given, {}), True).explanations
    assert [each.id for each in explanations[:2]] == ["D-olive-5", "D-olive-7"], explanations
    assert explanations[0].together == ("D-olive-7",)
