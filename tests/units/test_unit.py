"""What a descriptor derives: alternatives from the module beside its twins, none where there is no such module."""

import dataclasses
from pathlib import Path

import pytest

from refemu import units


def test_alternatives_come_from_the_module_that_the_descriptor_names() -> None:
    unit = units.find("olive_mac")

    assert unit.others == "refemu.units.olive.alternatives.olive_mac"
    assert [each.decision for each in unit.alternatives] == ["D-olive-33", "D-olive-33"]
    elsewhere = dataclasses.replace(unit, others="refemu.units.olive.alternatives.ovp_encoder")
    assert {each.decision for each in elsewhere.alternatives} > {"D-olive-1", "D-olive-3"}
    assert not dataclasses.replace(unit, others="refemu.nothing.there").alternatives


def test_an_error_inside_that_module_is_not_swallowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_others.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        _ = dataclasses.replace(units.find("olive_mac"), others="broken_others").alternatives
