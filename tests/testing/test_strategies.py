"""Drawn values are valid, reach the boundaries and shrink to few bits."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from refemu import formats, units
from refemu.arith.checks import Refused
from refemu.testing import codebooks, codes, float16s, float32s, inputs, port_values, tensors
from refemu.units.ports import Port
from refemu.units.unit import Config

CONFIGS = [
    pytest.param(name, config, id=f"{name}-{config}") for name in units.names() for config in units.find(name).configs
]
QUICK = settings(max_examples=4, deadline=None, database=None)
SEARCH = settings(deadline=None, database=None, phases=[Phase.generate, Phase.shrink])


@pytest.mark.parametrize(("unit", "config"), CONFIGS)
def test_drawn_inputs_are_valid_for_every_unit(unit: str, config: str) -> None:
    found = units.find(unit)

    @QUICK
    @given(inputs(unit, config, max_rows=3))
    def takes(stimulus: dict[str, np.ndarray]) -> None:
        result = found.evaluate(found.configs[config], stimulus, jit=False)
        for port in found.ports(Config(**found.configs[config])).outputs:
            assert getattr(result, port.name) is not None

    takes()


@pytest.mark.parametrize(
    "port",
    [
        Port("p", 1),
        Port("p", 4, 3),
        Port("p", 8, signed=True),
        Port("p", 16, encoding="f16"),
        Port("p", 32, 2, True),
        Port("p", 32, encoding="f32"),
        Port("p", 64),
        Port("p", 5, least=3, most=20),
    ],
    ids=repr,
)
def test_ports_reach_both_limits(port: Port) -> None:
    low, high = port.limits
    for wanted in {low, high} if port.kind not in ("f16", "f32") else {0, 0x7BFF if port.kind == "f16" else 0x7F7FFFFF}:
        found = find(
            port_values(port, 4), lambda values, wanted=wanted: bool((values == wanted).any()), settings=SEARCH
        )
        assert found.dtype == port.dtype
        assert found.shape[0] == 4
        port.validate(found, "unit")


@pytest.mark.parametrize("first", [0, 2000, 5000])
def test_rows_wider_than_an_example_reach_all_lanes(first: int) -> None:
    """Wide rows repeat the bytes that were drawn."""
    wide = port_values(Port("p", 16, 7000), 1)
    unshrunk = settings(SEARCH, phases=[Phase.generate])
    found = find(wide, lambda values: bool((values[0, first : first + 2000] == 0xFFFF).any()), settings=unshrunk)

    assert found.shape == (1, 7000)


def test_wrong_tie_shrinks_to_one_word() -> None:
    stimulus = find(
        inputs("ovp_encoder", "int4"), lambda s: bool((s["value"].view(np.float32) > 4).any()), settings=SEARCH
    )
    assert stimulus["value"].shape == (1, 2)
    assert sorted(stimulus["value"].reshape(-1).tolist())[0] == 0


@pytest.mark.parametrize("lane", [0, 7, 31])
def test_failure_in_a_lane_shrinks_to_that_lane(lane: int) -> None:
    drawn = inputs("kv_quantizer", "paper")
    found = find(drawn, lambda s: bool((s["x"][:, lane] & 0x7FFF > 0x3C00).any()), settings=SEARCH)
    assert found["x"].shape == (1, 32)
    assert np.flatnonzero(found["x"]).tolist() == [lane]


def test_failure_in_a_page_shrinks_to_few_words() -> None:
    """A product of a value and its scale that is not 0 needs two of 3,392 words, and how many tokens there are."""
    unit, tries = units.find("page_reader"), 0

    def has_values(stimulus: dict[str, np.ndarray]) -> bool:
        nonlocal tries
        tries += 1
        return bool((unit.evaluate(unit.configs["page"], stimulus).value & 0x7FFF).any())

    found = find(inputs("page_reader", "page"), has_values, settings=SEARCH)
    assert found["images"].shape == (1, 3392) and np.count_nonzero(found["images"]) < 600
    assert tries < 500


CODE = """
from hypothesis import given, settings
{before}
from refemu.testing import inputs

@settings(max_examples=3)
@given(inputs("ovp_decoder", "int4"))
def test(stimulus): ...

print(test._hypothesis_internal_use_settings.deadline)
"""


@pytest.mark.parametrize(
    ("before", "deadline"),
    [
        ("", "None"),
        ("settings.register_profile('own', deadline=500); settings.load_profile('own')", "0:00:00.500000"),
    ],
)
def test_deadline_is_off_unless_chosen(before: str, deadline: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(before=before)], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.returncode) == (deadline, 0), done.stderr


@QUICK
@given(float16s((3, 5)), float32s(7), float16s(64, allow_nan=True, allow_infinity=True))
def test_floats_are_finite_unless_asked(small: np.ndarray, wide: np.ndarray, any_: np.ndarray) -> None:
    assert small.dtype == np.float16 and small.shape == (3, 5) and np.isfinite(small).all()
    assert wide.dtype == np.float32 and np.isfinite(wide).all()
    assert set(any_[np.isnan(any_)].view(np.uint16).tolist()) <= {0x7E00}


@pytest.mark.parametrize("word", [0x7E00, 0x7C00, 0xFC00, 0x8000, 0x0001, 0x7BFF])
def test_special_words_are_reached(word: int) -> None:
    drawn = float16s(3, allow_nan=True, allow_infinity=True)
    assert word in find(drawn, lambda x: word in x.view(np.uint16), settings=SEARCH).view(np.uint16)


@pytest.mark.parametrize("name", ["INT4", "FLINT4", "E2M1_BIAS2", "E4M3_BIAS4"])
def test_codes_decode(name: str) -> None:
    fmt = formats.find(name)

    @QUICK
    @given(codes(fmt, (2, 3)))
    def decodes(drawn: np.ndarray) -> None:
        assert fmt.decode(drawn).shape == (2, 3)

    decodes()


@QUICK
@given(st.integers(1, 4).flatmap(codebooks))
def test_codebooks_encode(codebook: formats.Codebook) -> None:
    assert codebook.kind == "cluster"


def test_inputs_with_invalid_arguments_are_rejected() -> None:
    with pytest.raises(Refused, match="max_rows"):
        inputs("ovp_encoder", "int4", min_rows=5, max_rows=2)
    with pytest.raises(Refused, match="did you mean 'int4'"):
        inputs("ovp_encoder", "int44")
    with pytest.raises(TypeError, match="fmt must be a block format"):
        tensors("INT4")


KINDS = [
    formats.IntFormat,
    formats.Ovp,
    formats.OvpTensor,
    formats.Bfp,
    formats.BfpTensor,
    formats.GroupIntTensor,
    formats.KMeans,
    formats.KMeansTensor,
    formats.Affine,
    formats.AffineTensor,
    formats.HeteroKV,
    formats.UnifiedPage,
    formats.Codebook,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_types_have_strategies_without_an_import(kind: type) -> None:
    @QUICK
    @given(st.from_type(kind))
    def drawn(one: object) -> None:
        assert isinstance(one, kind)
        if hasattr(one, "fields"):
            assert one.fields()

    drawn()
