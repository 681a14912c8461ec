"""Decisions are found where the source implements them."""

import functools
from pathlib import Path

from refemu.golden.pages import decisions, places

ROOT = Path(__file__).parents[3]


def test_every_decision_has_a_place_that_names_it() -> None:
    lines = functools.cache(lambda file: (ROOT / file).read_text().splitlines())
    for id in decisions.every():
        taken = places.of_decision(id)
        assert taken, id
        assert [place for place in taken if id not in lines(place.file)[place.line - 1]] == []


def test_places_are_the_functions_and_fields_that_decide() -> None:
    names = {(Path(place.file).stem, place.name) for place in places.of_decision("D-olive-18")}
    assert ("ovp_decoder", "OvpDecoder.is_illegal") in names
    names = {(place.file, place.name) for place in places.of_decision("D-harmonia-19")}
    assert ("refemu/models/schemes/harmonia/config.py", "HarmoniaConfig.prefill_window") in names


def test_longer_id_is_not_a_match() -> None:
    """D-olive-1 is found; D-olive-18 in the same file does not match."""
    for place in places.of_decision("D-olive-1"):
        line = (ROOT / place.file).read_text().splitlines()[place.line - 1]
        assert "D-olive-1" in line.replace("D-olive-18", "")
