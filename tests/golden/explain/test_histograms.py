"""Histograms by hand."""

from refemu.golden.compare import answer_files
from refemu.golden.explain.histograms import where
from tests.golden.explain import made


def test_words_are_counted_by_place() -> None:
    rows = made.golden("bfp_aligner", "paper")
    arrays = made.outputs(rows)
    last = rows.rows - 1
    arrays["out.mantissa"][0, 2] ^= 5
    arrays["out.mantissa"][last, 2] ^= 1
    arrays["out.sign"][last, 0] ^= 1
    places = where(rows, answer_files.Answer(arrays, {}), made.wrong(rows, arrays), {"LOST": 1})

    assert places.ports == {"mantissa": 2, "sign": 1}
    assert places.lanes == {"mantissa": {2: 2}, "sign": {0: 1}}
    assert places.bits == {"mantissa": {0: 2, 2: 1}, "sign": {0: 1}}
    assert places.kinds == {"paper": 1, "random": 1} and places.flags == {"LOST": 1}


def test_masked_bits_are_not_counted() -> None:
    rows = made.golden("bfp_aligner", "paper")
    arrays = made.outputs(rows)
    arrays["out.mantissa"][rows.arrays["out.mantissa.care"] == 0] ^= 1
    assert where(rows, answer_files.Answer(arrays, {}), made.wrong(rows, arrays), {}).ports == {}
