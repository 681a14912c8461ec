"""A word leads to one topic, an unknown word to the nearest."""

import pytest

from refemu.arith.checks import Refused
from refemu.golden.pages import topics


@pytest.mark.parametrize(
    ("word", "kind", "of", "member"),
    [
        ("D-olive-19", "decision", "D-olive-19", ""),
        ("orizuru", "unit", "orizuru", ""),
        ("orizuru.x", "port", "orizuru", "x"),
        ("orizuru.k", "parameter", "orizuru", "k"),
        ("orizuru.cycles", "field", "orizuru", "cycles"),
        ("orizuru.event", "field", "orizuru", "event"),
        ("fp16_mac.rm", "port", "fp16_mac", "rm"),
        ("harmonia-kv4", "scheme", "harmonia-kv4", ""),
        ("harmonia-kv4.prefill_window", "parameter", "harmonia-kv4", "prefill_window"),
        ("ovp-int4", "format", "OVP_INT4", ""),
        ("OVP_INT4.left", "parameter", "OVP_INT4", "left"),
        ("Victim", "term", "victim", ""),
        ("ovp", "term", "outlier-victim pair", ""),
    ],
)
def test_words_lead_to_topics(word: str, kind: str, of: str, member: str) -> None:
    assert topics.find(word) == topics.Topic(kind, of, member)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("D-klm-27", "D-kllm-27"),
        ("orizzuru", "orizuru"),
        ("harmonia-kv5", "harmonia-kv"),
        ("harmonia-kv4.prefil", "harmonia-kv4.prefill_window"),
        ("ovp_decoder.pear", "ovp_decoder.pair"),
        ("orizuru.cycle", "orizuru.cycles"),
        ("orizuru.evnt", "orizuru.event"),
        ("OVP_INT5", "OVP_INT"),
        ("victims", "victim"),
        ("victim.x", "victim"),
    ],
)
def test_an_unknown_word_suggests_the_nearest(word: str, nearest: str) -> None:
    with pytest.raises(Refused, match=f"did you mean '{nearest}"):
        topics.find(word)


def test_a_name_in_units_suggests_them() -> None:
    with pytest.raises(
        Refused, match=r"did you mean 'orizuru\.comparisons_live', 'orizuru16\.comparisons_live', 'orizuru_clocked\."
    ):
        topics.find("comparisons_live")
    with pytest.raises(Refused, match=r"did you mean 'clustering.overflow', .* or \d+ more\?"):
        topics.find("overflow")


def test_word_unlike_any_gets_no_suggestion() -> None:
    with pytest.raises(Refused, match=r"no entry 'ovp_decoder.nosuch'; .*; ovp_decoder has .*pair, .*bias"):
        topics.find("ovp_decoder.nosuch")
    with pytest.raises(Refused, match=r"no entry 'zzzzzz'; `refemu list`"):
        topics.find("zzzzzz")
