"""The pages of variants against what the units offer."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from refemu import golden, units
from tools import variants
from tools.grades import VECTORS


@pytest.mark.long
def test_page_lists_every_variant_of_committed_sets() -> None:
    listed = {tuple(cell.strip() for cell in line.split("|")[1:3]) for line in _escaped(variants.lines())}
    offered = set()
    for unit in units.names():
        for name in variants.sets_of(unit):
            for choice in golden.variants(unit, golden.load(VECTORS / name).config):
                offered.add((choice.decision, choice.says.replace("|", "/")))
    assert listed == offered


@pytest.mark.parametrize("unit", ["olive_mac", "concat"])
def test_counts_are_those_of_the_committed_set(unit: str) -> None:
    page = variants.lines()
    for decision, says, name, count in variants.telling(unit):
        assert f"| {decision} | {says} | {name} | {count} |" in page
        assert count >= 3


def test_a_page_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one unit, without processes."""
    monkeypatch.setattr(variants, "ProcessPoolExecutor", lambda: nullcontext(SimpleNamespace(map=map)))
    monkeypatch.setattr(variants.units, "names", lambda: ["concat"])
    variants.main(tmp_path)

    assert variants.lines(tmp_path) == [line for line in variants.lines() if "| concat-" in line]


def _escaped(lines: list[str]) -> list[str]:
    return [line.replace("\\|", "/") for line in lines]
