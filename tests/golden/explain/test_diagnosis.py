"""The rule for printing an explanation, and its counts."""

import tracemalloc

import numpy as np
import pytest

from refemu import units
from refemu.golden.compare import answer_files
from refemu.golden.explain import diagnosis as diagnoses
from refemu.golden.explain import reruns, unit_runs
from refemu.golden.explain import table as tables
from refemu.golden.explain.diagnosis import diagnosis
from refemu.golden.faults import library
from refemu.golden.files.sets import Golden
from tests.golden.explain import made
from tests.golden.explain.test_search import decided


def said(rows: made.Golden, arrays: made.Arrays) -> list[tuple[str, int, int]]:
    result = diagnosis(rows, answer_files.Answer(arrays, {}), made.wrong(rows, arrays))
    return [(part.id, part.rows_explained, part.rows_distinguishing) for part in result.explanations]


def test_counts_cover_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS", 100)
    rows, arrays = decided("fp16_mac", "paper", "rounding is 'fp16_fma'")
    result = diagnosis(rows, answer_files.Answer(arrays, {}), made.wrong(rows, arrays))
    (part,) = result.explanations

    assert result.rows <= 100 + 3 and result.verified == rows.rows
    assert (part.id, part.rows_explained) == ("D-kllm-3", int(made.wrong(rows, arrays).sum()))
    assert part.parameters == {"rounding": "fp16_fma"} and part.refused_rows == 0


def peak(seeds: int) -> tuple[int, int]:
    """Rows of a random set, and the peak of memory when a wrong answer to it is explained."""
    rows = made.random("olive_mac", "wrap", seeds)
    arrays = made.outputs(rows)
    arrays["out.acc"] ^= 1
    wrong = made.wrong(rows, arrays)
    tracemalloc.start()
    try:
        diagnosis(rows, answer_files.Answer(arrays, {}), wrong)
        return rows.rows, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The explanation is verified on all rows in pieces; memory grows by one number for each case."""
    monkeypatch.setattr(diagnoses, "PIECE", 1 << 13)
    monkeypatch.setattr(tables, "ROWS", 200)
    peak(1)  # caches
    (few, least), (many, most) = peak(16), peak(64)

    assert many == 4 * few and most - least < 4 * (many - few)


def test_slow_units_are_searched_on_fewer_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, arrays = decided("fp16_mac", "paper", "rounding is 'fp16_fma'")
    monkeypatch.setattr(unit_runs, "pace", lambda table: diagnoses.PACE / 50)
    result = diagnosis(rows, answer_files.Answer(arrays, {}), made.wrong(rows, arrays))

    assert 0 < result.rows <= 50 < result.verified


def test_equal_predictions_are_one_candidate() -> None:
    rows, arrays = decided("ovp_decoder", "int4", "the left element is in the high half")
    result = diagnosis(rows, answer_files.Answer(arrays, {}), made.wrong(rows, arrays))
    (part,) = result.explanations
    assert (part.kind, part.id) == ("decision", "D-olive-1")
    assert {"lane_permutation", "nibble_swap"} <= set(part.equivalent) and len(result.rivals) >= 3


def test_invalid_stimulus_is_reported() -> None:
    rows = made.golden("ovp_encoder", "int4", ("paper",))
    stale = {name: array.copy() for name, array in rows.arrays.items()}
    stale["in.value"][...] = 0x7FC00000  # not a number
    result = diagnosis(
        Golden(rows.manifest, stale), answer_files.Answer(made.outputs(rows), {}), np.ones(rows.rows, np.bool_)
    )
    assert result.stories == () and "value" in result.refusal


def test_one_wrong_word_lists_possible_guesses() -> None:
    rows = made.golden("bfp_aligner", "paper", ("paper",))
    arrays = made.outputs(rows)
    arrays["out.mantissa"][1, 0] += 1  # as half to even, and many others
    result = diagnosis(rows, answer_files.Answer(arrays, {}), made.wrong(rows, arrays))
    assert result.stories == () and any("D-harmonia-2" in text for text in result.possible)


@pytest.mark.parametrize("unit", ["ovp_decoder", "fp16_mac", "orizuru"])
@pytest.mark.parametrize("share", [0, 50, 3])
def test_random_words_get_no_explanation(unit: str, share: int) -> None:
    config = {"ovp_decoder": "int4", "fp16_mac": "paper", "orizuru": "n8"}[unit]
    rows = made.golden(unit, config)
    arrays, random = made.outputs(rows), np.random.default_rng(share)
    for array in arrays.values():
        flat = array.reshape(-1)
        places = random.integers(0, flat.size, flat.size // share if share else 3)
        flat[places] ^= random.integers(0, 2, len(places)).astype(flat.dtype)
    assert said(rows, arrays) == []


def test_guess_changing_right_rows_is_not_printed() -> None:
    """Nine tenths of the changed cells must become right; here a half does."""
    rows, arrays = decided("fp16_mac", "paper", "rounding is 'fp16_fma'")
    right = made.outputs(rows)
    wrong = np.flatnonzero(made.wrong(rows, arrays))
    for name in arrays:
        arrays[name][wrong[::2]] = right[name][wrong[::2]]
    assert said(rows, arrays) == []


def test_half_of_a_condition_is_not_printed() -> None:
    """Only outliers of both operands count: half of the wrong rows fit a zero mask of A, half one of B."""
    rows = made.golden("index_product", "w3a3")
    arrays, inputs = made.outputs(rows), rows.arrays
    wrong = (inputs["in.a_mask"] ^ inputs["in.b_mask"]) != 0
    arrays["out.q"] = np.where(wrong, inputs["in.a"] << 3 | inputs["in.b"], arrays["out.q"])
    for name in ("out.mask", "out.outlier", "out.overflow"):
        arrays[name] = np.where(wrong, 0, arrays[name]).astype(arrays[name].dtype)
    assert said(rows, arrays) == []


def test_fit_to_one_long_case_is_not_printed() -> None:
    """In one case, ids in order from 1 look like moved lanes; no other case fits that."""
    rows = made.golden("free_page_list", "small", ("edge",))
    arrays = made.outputs(rows)
    there = arrays["out.taken"] != arrays["out.taken"].max()
    arrays["out.taken"] += there.astype(np.uint32)
    assert said(rows, arrays) == []


def test_parts_of_a_composition_name_each_other() -> None:
    rows, arrays = decided("bfp_aligner", "paper", "rounding is 'half_even'")
    arrays["out.mantissa"][:, 7] ^= 1
    first, second = diagnosis(rows, answer_files.Answer(arrays, {}), made.wrong(rows, arrays)).stories[0]
    assert (first.together, second.together) == ((second.id,), (first.id,))
    assert first.rows_explained == second.rows_explained == int(made.wrong(rows, arrays).sum())
    assert first.plain()["with"] == (second.id,) and "together" not in first.plain()


ALONE = [
    ("page_reader", "page", "feature 0 is in the highest bits", "value", ("key",)),
    ("ovp_encoder", "int4", "two outliers are compared after rounding", "pair", ("kind",)),
    ("ovp_encoder", "int4", "the bias is one more", "kind", ("pair", "saturated", "raised")),
]


def in_one_port(unit: str, config: str, says: str, port: str) -> tuple[made.Golden, made.Arrays]:
    """Answers of a device with a variant in one port alone."""
    rows, arrays = decided(unit, config, says)
    return rows, {**made.outputs(rows), f"out.{port}": arrays[f"out.{port}"]}


@pytest.mark.parametrize(("unit", "config", "says", "port", "agreeing"), ALONE)
def test_variant_in_one_port_alone_is_named(
    unit: str, config: str, says: str, port: str, agreeing: tuple[str, ...]
) -> None:
    rows, arrays = in_one_port(unit, config, says, port)
    result = diagnosis(rows, answer_files.Answer(arrays, {}), made.wrong(rows, arrays))
    (part,) = result.stories[0]

    assert part.detail.endswith(says) and part.rows_explained == int(made.wrong(rows, arrays).sum())
    assert (part.ports, part.agreeing) == ((port,), agreeing)
    assert [guess.outputs for guess in result.rivals[0].guesses] == [(f"out.{port}",)]


def test_variant_in_one_port_that_leaves_rows_wrong_is_not_named() -> None:
    """One wrong row of sixteen has a third answer; over all ports such a variant is named."""
    rows, arrays = in_one_port("ovp_encoder", "int4", "a negative value is never an outlier", "pair")
    wrong = np.flatnonzero(made.wrong(rows, arrays))[::16]
    arrays["out.pair"][wrong] ^= np.arange(1, len(wrong) + 1).astype(np.uint8) * 37 % 255
    assert said(rows, arrays) == []


def test_variant_of_all_ports_is_limited_to_none() -> None:
    rows, arrays = decided("page_reader", "page", "feature 0 is in the highest bits")
    (part,) = diagnosis(rows, answer_files.Answer(arrays, {}), made.wrong(rows, arrays)).explanations
    assert (part.ports, part.agreeing, part.title) == ((), (), "order of packed codes")


def test_random_words_in_one_port_get_no_explanation_of_it_alone() -> None:
    rows = made.golden("page_reader", "page")
    arrays, random = made.outputs(rows), np.random.default_rng(1)
    flat = arrays["out.value"].reshape(-1)
    places = random.integers(0, flat.size, flat.size // 50)
    flat[places] ^= random.integers(0, 2, len(places)).astype(flat.dtype)
    assert said(rows, arrays) == []


@pytest.mark.parametrize("name", units.names())
def test_faults_for_which_a_unit_runs_have_different_ids(name: str) -> None:
    """A search finds the answers of a device by these ids."""
    unit = units.find(name)
    config = next(iter(unit.configs))
    rows = made.golden(name, config, ("paper",))
    table = made.table(rows, made.outputs(rows))
    ids = [each.id for each in (*reruns.decisions(table), *library.seen(table), *library.computed(table))]
    assert len(set(ids)) == len(ids)
