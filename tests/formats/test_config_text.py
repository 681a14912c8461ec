"""Parameters as text: every value round-trips through its text, and invalid texts are rejected."""

import dataclasses
from typing import Any, Literal

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from refemu import formats
from refemu.arith.checks import Refused
from refemu.arith.integers import Overflow
from refemu.formats import config_text
from refemu.formats.kllm.kllm_arith import LANES, KllmArith
from refemu.formats.olive.ovp import Ovp

INTS = st.integers(-(1 << 40), 1 << 40)
FLOATS = st.floats(allow_nan=False)
ARITH = st.builds(
    KllmArith,
    tie=st.sampled_from(["low", "high"]),
    softmax=st.sampled_from(["fp16", "softmax32"]),
    order=st.just(LANES),
)
PAIRS = st.builds(
    dataclasses.replace,
    st.sampled_from([formats.OVP_INT4, formats.OVP_INT8, formats.OVP_FLINT4]),
    left=st.sampled_from(["low", "high"]),
    far=st.none() | st.integers(1, 1000).map(float),
)
VALUES = [
    (int, INTS),
    (float, FLOATS),
    (bool, st.booleans()),
    (int | None, INTS | st.none()),
    (float | None, FLOATS | st.none()),
    (Literal["none", "silu", "4"], st.sampled_from(["none", "silu", "4"])),
    (tuple[int, ...], st.lists(INTS).map(tuple)),
    (tuple[int, ...] | None, st.lists(INTS, min_size=1).map(tuple) | st.none()),
    (tuple[float, str], st.tuples(FLOATS, st.sampled_from(["a", "word_2"]))),
    (tuple[tuple[int, int], ...], st.lists(st.tuples(INTS, INTS)).map(tuple)),
    (Literal["paper", "exact"] | KllmArith, ARITH | st.just("paper")),
    (Literal["OVP_INT4"] | Ovp, PAIRS | st.just("OVP_INT4")),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_every_value_comes_back_from_its_text(kind: Any, values: st.SearchStrategy[Any]) -> None:
    @given(values)
    def check(value: Any) -> None:
        text = config_text.write(value)
        again = config_text.read(text, kind, "thing")
        assert again == value and type(again) is type(value), text
        assert config_text.assignments(f"a={text},b=1", "thing") == {"a": text, "b": "1"}

    check()


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (int, "0x10", 16),
        (tuple[int, ...], "4+", (4,)),
        (tuple[int, ...], "none", ()),
        (tuple[int, ...] | None, "none", None),
        (Literal["none"], "none", "none"),
        (float, "4", 4),
        (str, "word", "word"),
        (Overflow, "wrap", "wrap"),
        (KllmArith, "KllmArith[]", KllmArith()),
        (Ovp, "OVP_INT4[left=high]", dataclasses.replace(formats.OVP_INT4, left="high")),
    ],
)
def test_texts(kind: Any, text: str, value: object) -> None:
    assert config_text.read(text, kind, "thing") == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n", "thing: parameters are name=value, got 'n'"),
        ("=3", "name=value"),
        ("n=1,,m=2", "name=value, got ''"),
        ("n=1,n=2", "n is there twice"),
        ("n=[1", "brackets do not match"),
        ("n=1],m=[2", "brackets do not match"),
    ],
)
def test_assignments_reject(text: str, message: str) -> None:
    with pytest.raises(Refused, match=message.replace("[", r"\[")):
        config_text.assignments(text, "thing")


def test_objects_with_unknown_bases_or_fields_are_rejected() -> None:
    with pytest.raises(
        Refused, match=r"unknown thing: base 'OVP_INT5' of OVP_INT5\[\]; did you mean 'OVP_INT4' or 'OVP_INT8'"
    ):
        config_text.read("OVP_INT5[]", Ovp, "thing")
    with pytest.raises(Refused, match="unknown thing: field 'ties' of KllmArith; did you mean 'tie'"):
        config_text.read("KllmArith[ties=low]", KllmArith, "thing")
    with pytest.raises(Refused, match="tie must be"):
        config_text.read("KllmArith[tie=middle]", KllmArith, "thing")
    with pytest.raises(Refused, match="missing"):
        config_text.read("Ovp[left=low]", Ovp, "thing")


def test_an_array_has_no_text() -> None:
    with pytest.raises(Refused, match="ndarray cannot be written as text"):
        config_text.write(np.zeros(3))
