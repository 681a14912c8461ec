"""Who computes the steps: readable units and compiled forms give the same bits, under the parameters of the scheme."""

from typing import Any

import numpy as np
import pytest

from refemu.models import schemes
from refemu.models.backend import find
from refemu.models.schemes.leankv import layout
from refemu.models.schemes.leankv.steps import ROWS, Units, arithmetic, patterns

VARIANTS = [
    "t_low=0.02,t_high=0.1",
    "preset=diffkv,alpha_prune=0.5,alpha_quant=0.9",
    "gqa=mean,include_self=true",
    "gqa_order=queries,score_queries=5,normalize=false",
]
TOKENS, HEADS, GROUP, SIZE = 20, 2, 2, 16
SCALE = np.float32(0.25)


def units(text: str, backend: str) -> Units:
    config: Any = schemes.parse(f"leankv:{text}")
    return Units(config, find(backend), layout.pages(config, SIZE))


def operands(tokens: int = TOKENS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(3)
    shapes = (tokens, HEADS * GROUP, SIZE), (tokens, HEADS, SIZE), (tokens, HEADS, SIZE)
    q, k, v = (draw.normal(size=shape).astype(np.float16).astype(np.float32) for shape in shapes)
    return q, k, v


@pytest.mark.parametrize("text", VARIANTS)
def test_backends_agree_about_a_prompt(text: str) -> None:
    q, k, v = operands()
    (readable, of_units), (compiled, of_compiled) = (
        units(text, backend).prompt(q, k, v, SCALE) for backend in ("numpy", "jit")
    )

    assert readable.tobytes() == compiled.tobytes()
    for name in ("sum", "mean", "share"):
        assert np.asarray(getattr(of_units, name)).tobytes() == np.asarray(getattr(of_compiled, name)).tobytes()


def test_significance_in_parts_is_that_of_the_whole() -> None:
    """More queries than are held at a time."""
    q, k, _ = operands(ROWS + 7)
    readable, compiled = (units(VARIANTS[0], backend).significance(q, k, SCALE) for backend in ("numpy", "jit"))

    assert np.asarray(readable.sum).tobytes() == np.asarray(compiled.sum).tobytes()


def test_probabilities_exclude_later_tokens_and_sum_to_1() -> None:
    q, k, _ = operands()
    p = units(VARIANTS[0], "jit").probabilities(q, k, SCALE, 5, 9)

    assert p.shape == (HEADS, 4, GROUP, TOKENS)
    for row, query in enumerate(range(5, 9)):
        assert (p[:, row, :, query + 1 :] == 0).all() and (p[:, row, :, : query + 1] > 0).all()
    assert np.allclose(p.sum(axis=-1), 1, atol=1e-5)


@pytest.mark.parametrize("text", VARIANTS)
def test_backends_agree_about_classes_and_decisions(text: str) -> None:
    q, k, v = operands()
    share = np.asarray(units(text, "jit").prompt(q, k, v, SCALE)[1].share)
    classes = [units(text, backend).classify(share) for backend in ("numpy", "jit")]
    for name in ("cls", "order", "low", "high"):
        assert np.array_equal(getattr(classes[0], name), getattr(classes[1], name))
    assert (classes[0].high + classes[0].low <= TOKENS).all()

    slots, draw = 9, np.random.default_rng(5)
    score = draw.random((HEADS, slots), np.float32).view(np.uint32)
    position = np.tile(np.arange(slots, dtype=np.uint32), (HEADS, 1))
    high, low = np.array([6, 5]), np.array([3, 2])
    decided = [
        units(text, backend).decide(score, position, high, low, np.array([200, 200]), np.array([150, 150]))
        for backend in ("numpy", "jit")
    ]
    for name in ("choice", "victim", "low_slot", "delta_high", "delta_low"):
        assert np.array_equal(getattr(decided[0], name), getattr(decided[1], name))


def test_sum_of_low_tokens_begins_where_scheme_says() -> None:
    """D-leankv-21: sums of low tokens with the high ones, or restarted."""
    share = np.linspace(0.2, 0.001, 150, dtype=np.float32).view(np.uint32)[None]
    low = [
        units(f"t_low=0.05,t_high=0.1,window=8,low_cumsum={name}", "jit").classify(share).low.tolist()
        for name in ("total", "restart")
    ]

    assert low[0] != low[1]


def test_parameters_follow_the_configuration() -> None:
    """None stands for what the preset says; quirks are those of the published code."""
    paper, diffkv = (units(text, "numpy") for text in ("score_queries=0", "preset=diffkv,alpha_prune=0.1"))

    assert paper.deciding()["policy"] == "algorithm1" and diffkv.deciding()["policy"] == "diffkv"
    assert paper.scores() == (None, False) and not paper.deciding()["include_self"]
    assert units("include_self=true", "numpy").deciding()["include_self"]
    assert not arithmetic(paper.config).lane_max
    assert arithmetic(schemes.parse("leankv:quirks=lane_max")).lane_max  # type: ignore[arg-type]


def test_patterns_are_those_of_float32() -> None:
    assert patterns((0.5, 1.0)).tolist() == [0x3F000000, 0x3F800000]
