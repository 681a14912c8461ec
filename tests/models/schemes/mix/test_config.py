"""Mixes as configurations: text and back, in Python, and what a manifest carries."""

import dataclasses
import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from refemu import models
from refemu.arith.checks import Refused, RefusedType
from refemu.models import schemes
from refemu.models.schemes.harmonia.config import KV4
from refemu.models.schemes.leankv.config import single
from refemu.models.schemes.mix.config import Mix, Part
from refemu.models.schemes.olive.config import OliveConfig

LINEAR = [
    "fp16:acc=fp16_fma",
    "olive-4",
    "olive-4:low=80,types=int+",
    "olive-4:eight_bit=down+blk.0.q,skip=none",
    "olive-8:preset=repo",
    "olive-study:experiment=prune_victims,sigma=2.5",
    "kllm-a4:gamma=activations,outlier_percent=0.5",
    "kllm-a3-s",
    "harmonia-kv8:weights=fp16",
]
ATTENTION = [
    "fp16",
    "kllm-a4:score_bits=6",
    "harmonia-kv4:n_initial=4,offset_k=3",
    "leankv",
    "leankv:quirks=lane_max+score_by_rank",
    "leankv-k8v4:align=4+4",
    "leankv-k8v4:align=4+4,softmax_eps=1e-06",
]


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Mixes as a user may write them: one linear part without layers, others with their own blocks."""
    blocks = draw(st.lists(st.integers(0, 40), unique=True, max_size=12))
    cuts = sorted(draw(st.lists(st.integers(0, len(blocks)), max_size=3)))
    groups = [blocks[first:last] for first, last in zip([0, *cuts], [*cuts, len(blocks)], strict=True)]
    linear = []
    for group in filter(None, groups):
        name, colon, parameters = draw(st.sampled_from(LINEAR)).partition(":")
        linear.append(f"{name}@{';'.join(map(str, group))}{colon}{parameters}")
    linear.insert(draw(st.integers(0, len(linear))), draw(st.sampled_from(LINEAR)))
    return "+".join([*linear, draw(st.sampled_from(ATTENTION))])


@given(texts())
def test_text_and_mix_stand_for_each_other(text: str) -> None:
    mix: Any = schemes.parse(text)
    written = schemes.text(mix)

    assert schemes.parse(written) == mix
    assert schemes.text(schemes.parse(written)) == written == schemes.name(mix)
    assert repr(mix) == f"Mix({written!r})"
    assert schemes.find(mix) is mix
    json.dumps(schemes.parameters(mix))


@pytest.mark.parametrize(
    "text",
    [
        "olive-4+leankv-k8v4",
        "olive-8@0-1;29+olive-4+harmonia-kv4",
        "fp16+leankv-k8v4:align=4+4",
        "olive-4:types=int++fp16",
    ],
)
def test_what_is_written_shortest_is_written_back(text: str) -> None:
    assert schemes.text(schemes.parse(text)) == text


def test_align_of_single_scheme_is_not_a_mix() -> None:
    assert schemes.parse("leankv-k8v4:align=4+4") == dataclasses.replace(single("K8V4"), align=(4, 4))


def test_a_mix_is_composed_in_python() -> None:
    mix = models.compose(linear="olive-4", attention=KV4, layers={"olive-8": [29, 0, 1]})

    assert mix == schemes.parse("olive-8@0-1;29+olive-4+harmonia-kv4")
    assert mix == Mix((Part(OliveConfig(weight_bits=8, act_bits=8), (0, 1, 29)), Part(OliveConfig()), Part(KV4)))
    assert models.compose(linear="fp16", attention="fp16") == schemes.parse("fp16+fp16")


def test_a_manifest_names_every_parameter_of_every_part() -> None:
    mix = schemes.parse("olive-8@0-1+olive-4:low=80+leankv-k8v4")
    parts = schemes.parameters(mix)["parts"]

    assert [(part["scheme"], part["layers"]) for part in parts] == [
        ("olive-8", [0, 1]),
        ("olive-4", None),
        ("leankv-k8v4", None),
    ]
    assert parts[1]["parameters"] == schemes.parameters(OliveConfig(low=80))


def test_a_mix_has_the_phases_of_its_attention() -> None:
    paged: Any = schemes.parse("olive-4+leankv-k8v4")
    plain: Any = schemes.parse("olive-4+harmonia-kv4")

    assert paged.two_phases and not plain.two_phases


def test_layers_of_a_model() -> None:
    mix: Any = schemes.parse("olive-8@0;2+olive-4+fp16")

    assert [mix.layers_of(part, 4) for part in mix.linear] == [(0, 2), (1, 3)]
    with pytest.raises(
        Refused, match=r"mix olive-8@0;2\+olive-4\+fp16: part 1, 'olive-8@0;2': layer .* \[0, 1\], got 2"
    ):
        mix.layers_of(mix.parts[0], 2)


@pytest.mark.parametrize("layers", [(), (1, 1), (-1,), (10**6,)])
def test_invalid_layers_are_rejected(layers: tuple[int, ...]) -> None:
    with pytest.raises(Refused, match="mix: layer"):
        Part(OliveConfig(), layers)


def test_layers_that_are_not_integers_are_rejected() -> None:
    with pytest.raises(RefusedType, match=r"mix: layer must be an int, got 0\.5"):
        models.compose(linear="fp16", attention="fp16", layers={"olive-8": [0.5]})  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (["x"], r"layers must be a mapping, got \['x'\]"),
        ([], r"layers must be a mapping, got \[\]"),
        ("olive-8@0", "layers must be a mapping, got 'olive-8@0'"),
        ({"olive-8": 0}, "mix: layers of a scheme must be a sequence of blocks, got 0"),
        ({"olive-8": None}, "mix: layers of a scheme must be a sequence of blocks, got None"),
    ],
)
def test_layers_that_are_not_a_mapping_are_rejected(layers: Any, message: str) -> None:
    with pytest.raises(RefusedType, match=message):
        models.compose(linear="fp16", attention="fp16", layers=layers)


def test_path_that_would_begin_part_has_no_text() -> None:
    with pytest.raises(
        Refused, match=r"a value must not have a \+ before a scheme's name, got 'harmonia-kv4:smoothing=a"
    ):
        schemes.text(dataclasses.replace(KV4, smoothing="a+fp16"))


@dataclasses.dataclass(frozen=True)
class Foreign(models.Scheme):
    """A scheme without halves cannot be a part of a mix."""


def test_scheme_without_halves_is_rejected() -> None:
    with pytest.raises(Refused, match="part 1 must be a scheme that a mix can use, got Foreign"):
        models.compose(linear=Foreign(), attention="fp16")
