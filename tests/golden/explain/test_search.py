"""The search on small tables."""

import numpy as np

from refemu import units
from refemu.golden.explain.search import Search
from refemu.golden.files import fields
from refemu.units import variant as other
from tests.golden.explain import made


def decided(unit: str, config: str, *says: str) -> tuple[made.Golden, made.Arrays]:
    """A set of a combinational unit, and answers of a device with these variants."""
    rows, descriptor = made.golden(unit, config), units.find(unit)
    chosen = [next(each for each in descriptor.variants if each.says == text) for text in says]
    device = other.device(descriptor, descriptor.config(config), chosen)
    assert device is not None
    table = made.table(rows, made.outputs(rows))
    result = device.evaluate(table.groups[0].inputs)
    arrays = made.outputs(rows)
    for name, array in arrays.items():
        codes = fields.encode(getattr(result, name[4:]), table.ports[name], name)
        array[table.rows] = codes.reshape(-1, *array.shape[1:])
    return rows, arrays


def best(rows: made.Golden, arrays: made.Arrays) -> list[str]:
    ranked = Search(made.table(rows, arrays)).run()
    return [guess.name for guess in ranked[0].story.guesses] if ranked else []


def test_single_decision_is_found() -> None:
    assert best(*decided("fp16_mac", "paper", "rounding is 'fp16_fma'")) == ["D-kllm-3"]


def test_two_decisions_compose() -> None:
    rows, arrays = decided("orizuru", "n8", "min_leaf is 'compare'", "the path is not repaired after the last pop")
    assert sorted(best(rows, arrays)) == ["D-kllm-21", "D-kllm-23"]


def test_decision_and_change_in_one_lane_compose() -> None:
    rows, arrays = decided("bfp_aligner", "paper", "rounding is 'half_even'")
    arrays["out.mantissa"][:, 7] ^= 1
    ranked = Search(made.table(rows, arrays)).run()

    assert [guess.name for guess in ranked[0].story.guesses] == ["D-harmonia-2", "bit_inverted"]
    assert ranked[0].story.guesses[1].lanes == (7,) and ranked[0].score.perfect


def test_decision_correcting_no_word_alone_is_found() -> None:
    rows, arrays = decided("ovp_encoder", "int4", "the left element is in the high half")
    arrays["out.pair"] ^= 1  # every word is wrong, with the decision and without
    search = Search(made.table(rows, arrays))
    best = search.run()[0]

    assert [guess.name for guess in best.story.guesses] == ["D-olive-1", "bit_inverted"] and best.score.perfect
    assert {"nibble_swap"} == {other.story.guesses[0].name for other in search.alike(best)}


def test_decision_in_one_lane_is_found() -> None:
    rows, arrays = decided("bfp_aligner", "paper", "rounding is 'half_even'")
    right = made.outputs(rows)
    right["out.mantissa"][:, 2] = arrays["out.mantissa"][:, 2]
    (guess,) = Search(made.table(rows, right)).run()[0].story.guesses
    assert (guess.name, guess.lanes) == ("D-harmonia-2", (2,))


def test_independently_faulty_lane_is_excused() -> None:
    rows = made.golden("bfp_aligner", "paper")
    arrays = made.outputs(rows)
    places = np.arange(0, rows.rows, 7)
    arrays["out.mantissa"][places, 4] ^= (places * 31 % 1023 + 1).astype(np.uint16)
    (guess,) = Search(made.table(rows, arrays)).run()[0].story.guesses
    assert (guess.name, guess.lanes) == ("lane", (4,))


def test_random_words_have_no_story() -> None:
    rows = made.golden("bfp_aligner", "paper")
    arrays = made.outputs(rows)
    random = np.random.default_rng(3)
    arrays["out.mantissa"][random.integers(0, rows.rows, 9), random.integers(0, 8, 9)] ^= random.integers(
        1, 2047, 9
    ).astype(np.uint16)
    assert all(not scored.score.perfect for scored in Search(made.table(rows, arrays)).run())
