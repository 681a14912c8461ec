"""Every output and register bit of the committed sets rises and falls, or a list has the reason why not."""

import numpy as np
import pytest

from refemu import units
from refemu.golden.grade.answers import Answers, of_set
from tests.golden import committed, toggling

pytestmark = pytest.mark.committed


def answers(name: str) -> Answers:
    """Rows of a committed set."""
    return of_set(committed.read(name))


def differences(name: str, rows: Answers, keys: dict[str, str] | None = None) -> list[str]:
    """Errors of a set with its unit's list, or with `keys`."""
    listed = toggling.lists(rows.unit) if keys is None else keys
    return list(toggling.differences(toggling.steady(rows), name.partition("-")[2], listed))


@pytest.mark.parametrize("name", committed.NAMES)
def test_every_bit_toggles_or_is_listed(name: str) -> None:
    assert differences(name, answers(name)) == []


def test_list_entries_name_existing_bits_and_reasons() -> None:
    entries = [(unit, *item) for unit in map(units.find, units.names()) for item in toggling.lists(unit).items()]
    assert len(entries) > 100
    for unit, key, reason in entries:
        entry = toggling.entry(key)
        assert set(entry.configs) <= set(unit.configs) and len(reason) > 20, key
        for config in entry.configs or unit.configs:
            ports = unit.ports(unit.configs[config])
            named = {f"out.{port.name}": port for port in ports.outputs} | {
                f"st.{port.name}": port for port in ports.state
            }
            for port in entry.ports:
                assert entry.bits < 1 << named[port].bits, key
                assert max(entry.lanes or (0,)) < named[port].count, key


@pytest.mark.parametrize("bit", range(8))
def test_planted_constant_bit_is_detected(bit: int) -> None:
    rows = answers("concat-a4")
    rows.outputs["out.q"] = rows.outputs["out.q"] & np.uint8(~(1 << bit) & 0xFF)

    assert differences("concat-a4", rows) == [f"out.q, lane 0: {1 << bit:#x} does not toggle, and is not listed"]


def test_bit_that_never_falls_is_detected() -> None:
    rows = answers("concat-a4")
    rows.outputs["out.q"] = np.bitwise_or.accumulate(rows.outputs["out.q"])

    assert len(differences("concat-a4", rows)) == 1


def test_constant_register_bit_is_detected_in_its_lane() -> None:
    rows = answers("orizuru-n8")
    rows.held["st.p_mask"][:, 5] = 1

    assert differences("orizuru-n8", rows) == ["st.p_mask, lane 5: 0x1 does not toggle, and is not listed"]


def test_listed_bit_that_toggles_is_detected() -> None:
    rows = answers("concat-a4")
    wrong = {"a4: out.q 3,6-7": "never"}

    assert differences("concat-a4", rows, wrong) == ["out.q, lane 0: 0xc8 is listed, and toggles"]
    assert differences("concat-a4", rows, {"a3: out.q 3": "of another configuration"}) == []


def test_bit_toggling_in_all_lanes_is_detected() -> None:
    rows = answers("orizuru-n8")
    listed = dict(toggling.lists(rows.unit)) | {"n8: st.p_mask[some] 0": "some"}

    assert differences("orizuru-n8", rows, listed) == ["st.p_mask: 0x1 is listed for some lanes, and toggles in all"]


def test_masked_bits_do_not_toggle() -> None:
    rows = answers("bfp_aligner-paper")
    rows.care["out.mantissa"][:, 3] = 0

    assert len(differences("bfp_aligner-paper", rows)) == 1
