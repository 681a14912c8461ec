"""Taps of a mix: those of the half that each part computes, at ports that the units accept, in sets that regenerate."""

import json
from pathlib import Path
from typing import Any

import pytest

from refemu import golden, models
from refemu.golden.files import manifest
from refemu.golden.make import model_cases
from refemu.models import schemes
from refemu.units.unit import Cases
from tests.models.schemes import tap_cases
from tests.models.schemes.mix.pairs import PROMPT, TEXT, part, prepared

MIXES = [
    f"{part('olive-8', '0')}+{part('olive-4')}+leankv",
    f"{part('kllm-a4')}+harmonia-kv4",
    f"harmonia-kv8+{part('kllm-a4')}",
]
#: a mix, units that it taps, units that its schemes tap in the half that they do not compute here
HALVES = [
    ("olive-4+leankv-k8v4", {"ovp_encoder", "olive_mac", "paged_attention"}, {"orizuru"}),
    ("kllm-a4+fp16", {"orizuru", "index_norm", "index_function"}, {"functional", "score_quantizer"}),
    ("fp16+kllm-a4", {"orizuru", "functional", "score_quantizer"}, {"index_norm", "index_function", "index_product"}),
    ("harmonia-kv4+fp16", {"bfp_aligner", "fp2half", "fdgf"}, {"k_offset", "v_grouper", "bit_allocator"}),
    ("fp16+harmonia-kv4", {"k_offset", "v_grouper", "bit_allocator"}, {"bfp_aligner", "fp2half", "fdgf"}),
]


@pytest.mark.parametrize(("text", "there", "absent"), HALVES, ids=[text for text, _, _ in HALVES])
def test_the_units_are_those_of_the_halves(text: str, there: set[str], absent: set[str]) -> None:
    found = schemes.taps(schemes.parse(text))

    assert there <= set(found) and not absent & set(found)
    assert list(found) == sorted(set(found))


@pytest.mark.parametrize("text", MIXES)
def test_run_shows_exactly_the_named_units(text: str) -> None:
    told: list[tuple[int, str, Cases]] = []
    session = models.session(prepared(text), lambda layer, unit, case: told.append((layer, unit, case)))
    session.append(TEXT[:PROMPT])
    session.append(TEXT[PROMPT:])

    tap_cases.require_ports(told)
    seen, named = {unit for _, unit, _ in told}, set(schemes.taps(schemes.parse(text)))
    assert seen <= named
    assert named - seen <= {"flint_decoder", "olive_systolic_clocked"}


@pytest.mark.parametrize("name", ["kllm-a4", "harmonia-kv4"])
def test_both_halves_together_tap_what_the_scheme_taps(name: str) -> None:
    """So nothing of a scheme is in no half."""
    halves = [set(schemes.taps(schemes.parse(text))) for text in (f"{name}+fp16", f"fp16+{name}")]

    assert halves[0] | halves[1] == set(schemes.taps(schemes.parse(name)))


def test_a_part_shows_what_its_scheme_alone_shows() -> None:
    """The first linear layers of a prompt have the same inputs as alone, and the taps show the same."""
    shown: list[list[Any]] = []
    for text in (part("olive-4"), f"{part('olive-4')}+leankv-k8v4"):
        told: list[Any] = []
        session = models.session(prepared(text), lambda layer, unit, case, told=told: told.append((layer, unit, case)))
        session.append(TEXT[:PROMPT])
        shown.append(
            [
                (unit, case.config, case.why, {port: array.tobytes() for port, array in case.inputs.items()})
                for layer, unit, case in told
                if layer == 0 and unit.startswith("ov")
            ]
        )

    assert shown[0] and shown[0] == shown[1]


def test_sets_of_a_mix_regenerate(tmp_path: Path) -> None:
    """Their manifest names every part; `check` runs the mix again."""
    scheme = f"{part('olive-8', '0')}+{part('olive-4')}+leankv-k8v4"
    chosen = ["ovp_encoder", "generation_compressor"]
    golden.generate(tmp_path, units=chosen, kinds=["model"], scheme=scheme, tokens=16)
    manifests = [json.loads(path.read_text()) for path in sorted(tmp_path.rglob("manifest.json"))]
    (found,) = {json.dumps(one["source"], sort_keys=True): one["source"] for one in manifests if one["source"]}.values()
    model_cases.forget()
    report = golden.check(tmp_path)

    assert found["scheme"] == schemes.text(schemes.parse(scheme))
    assert found["scheme_config"] == manifest.plain(schemes.parameters(schemes.parse(scheme)))
    assert {one["unit"] for one in manifests} == set(chosen)
    assert report.equal and {entry.how for entry in report.sets} == {"regenerated"}
    assert schemes.parse(found["scheme"]) == schemes.parse(scheme)
