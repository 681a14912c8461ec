"""Reproducible bits, from the command and from the manifest."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import refemu.golden.make.generate as generator
from refemu import golden, units
from refemu.arith.checks import Refused
from refemu.golden.files import manifest as manifests
from refemu.golden.files import sets, store
from refemu.golden.make import model_cases, random_cases
from refemu.golden.make.regenerate import model_blocks, regenerate, remake
from tests.golden.conftest import RUN, taps


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_each_configuration_has_one_set(fake_units: None, tmp_path: Path) -> None:
    made = golden.generate(tmp_path, kinds=["paper", "random", "edge"])

    assert [one.name for one in made] == ["blender-wrap", "blender-saturate", "meter-w4"]
    assert made[0].kinds == {"paper": 2, "edge": 2, "random": 24}
    assert (made[0].rows, made[0].cases, made[2].rows, made[2].cases) == (28, 28, 12, 5)
    assert str(tmp_path / "blender-wrap") == made[0].path
    assert made[0].bytes == sum(map(len, files(tmp_path / "blender-wrap").values()))
    assert {"cases.txt", "manifest.json", "vectors.npz"} == set(files(tmp_path / "blender-wrap"))


def test_kinds_are_in_fixed_order(fake_units: None, tmp_path: Path) -> None:
    golden.generate(tmp_path / "a", kinds=["random", "paper"])
    golden.generate(tmp_path / "b", kinds=["paper", "random", "paper"])

    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert [entry["kind"] for entry in sets.load(tmp_path / "a" / "blender-wrap").manifest["cases"]] == [
        "paper",
        "random",
    ]


def test_generator_says_what_makes_each_kind(made: Path) -> None:
    manifest = sets.load(made / "meter-w4").manifest

    assert manifest["generator"] == {
        "paper": {"function": "meter.cases", "seed": 0},
        "random": {"function": "meter.cases", "seed": 0},
    }


def test_generation_is_reproducible(made: Path, tmp_path: Path) -> None:
    golden.generate(tmp_path / "again", kinds=["paper", "edge", "random"], hex=True, bin=True)

    assert files(made) == files(tmp_path / "again")


def test_seed_changes_cases_and_is_recorded(fake_units: None, tmp_path: Path) -> None:
    golden.generate(tmp_path, units=["meter"], kinds=["random"], seed=5)
    manifest = sets.load(tmp_path / "meter-w4").manifest

    assert (manifest["seed"], manifest["generator"]["random"]["seed"]) == (5, 5)
    assert sets.load(tmp_path / "meter-w4").arrays["in.add"].tolist() == [5, 36 & 7, 67 & 7, 98 & 7, 129 & 7, 160 & 7]


@pytest.mark.parametrize("name", ["blender-wrap", "blender-saturate", "meter-w4"])
def test_every_file_is_regenerated_from_the_manifest(name: str, made: Path) -> None:
    assert files(made / name) == regenerate(sets.load(made / name).manifest)


def test_model_cases_come_last_with_their_source(fake_units: None, fake_model: None, tmp_path: Path) -> None:
    plain = golden.generate(tmp_path / "plain")
    made = golden.generate(tmp_path, tokens=2)
    manifest = sets.load(tmp_path / "blender-wrap").manifest

    assert "model" not in plain[0].kinds
    assert made[0].kinds == {"paper": 2, "edge": 2, "random": 24, "exhaustive": 256, "model": 3}
    assert [(entry["why"], entry["source"]) for entry in manifest["cases"][-2:]] == [
        ("block 0", {"layer": 0}),
        ("block 1", {"layer": 1}),
    ]
    assert manifest["source"] == {
        "model": "toy",
        "weights_sha256": "0" * 64,
        "scheme": "scheme:a=1",
        "scheme_config": {"a": 1},
        "text_sha256": "1" * 64,
        "first_token": 0,
        "tokens": 2,
        "token_ids": [7, 9],
    }
    assert sets.load(tmp_path / "blender-saturate").manifest["source"] == {}
    assert files(tmp_path / "blender-wrap") == regenerate(manifest)


def test_model_set_begins_with_a_detecting_row(fake_units: None, fake_model: None, tmp_path: Path) -> None:
    """The taps of meter are zeros, so a worked example precedes them."""
    made = golden.generate(tmp_path, kinds=["model"])
    manifest = sets.load(tmp_path / "meter-w4").manifest

    assert [one.name for one in made] == ["blender-wrap", "meter-w4"]
    assert made[1].kinds == {"paper": 3, "model": 8}
    assert list(manifest["generator"]) == ["model"]
    assert files(tmp_path / "meter-w4") == regenerate(manifest)


def test_model_cases_are_read_from_a_set(fake_units: None, fake_model: None, tmp_path: Path) -> None:
    golden.generate(tmp_path, kinds=["model"])
    for name in ("blender-wrap", "meter-w4"):
        loaded = sets.load(tmp_path / name)

        cases, source = model_blocks(loaded), loaded.manifest["source"]
        assert files(tmp_path / name) == remake(loaded.manifest, cases, source)


def test_equal_set_retains_its_release(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "RELEASES", ("0.1.0", "0.3.3"))
    before = files(made)
    kept = golden.generate(made, kinds=["paper", "edge", "random"], hex=True, bin=True)

    assert {"0.1.0"} == {one.refemu_version for one in kept}
    assert before == files(made)


def test_a_changed_set_names_the_new_release(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = {**json.loads((made / "meter-w4" / "manifest.json").read_text()), "refemu_version": "0.0.9"}
    (made / "meter-w4" / "manifest.json").write_bytes(manifests.canonical(manifest))

    assert (
        golden.generate(made, units=["meter"], kinds=["paper", "random"], hex=True, bin=True)[0].refemu_version
        == "0.0.9"
    )
    assert (
        golden.generate(made, units=["meter"], kinds=["paper", "random"], hex=True, seed=1)[0].refemu_version == "0.1.0"
    )


def test_a_damaged_set_is_replaced(made: Path) -> None:
    (made / "meter-w4" / "manifest.json").write_bytes(b'{"self_sha256": ')
    golden.generate(made, units=["meter"], kinds=["paper", "random"])

    assert {"cases.txt", "manifest.json", "vectors.npz"} == set(files(made / "meter-w4"))
    assert golden.check(made / "meter-w4").equal


def test_progress_ends_at_its_total(fake_units: None, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    golden.generate(tmp_path, kinds=["paper"], progress=lambda *event: seen.append(event))

    assert seen == [("sets", 0, 3), ("sets", 1, 3), ("sets", 2, 3), ("sets", 3, 3)]


def test_folders_are_checked_before_computation(
    fake_units: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "meter-w4").mkdir()
    (tmp_path / "meter-w4" / "notes.txt").write_text("mine")
    monkeypatch.setattr(generator.build, "build", lambda *_, **__: pytest.fail("something was computed"))

    with pytest.raises(Refused, match=r"has notes.txt, which refemu did not write"):
        golden.generate(tmp_path, kinds=["paper"])
    assert store.names(tmp_path) == ["meter-w4/notes.txt"]


def test_unknown_kinds_are_rejected(fake_units: None, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="generate: kinds must be one of 'paper'"):
        golden.generate(tmp_path, kinds=["papers"])
    with pytest.raises(Refused, match="no cases of kind exhaustive for blender, meter"):
        golden.generate(tmp_path, configs=["w4"], kinds=["exhaustive"])
    assert list(tmp_path.iterdir()) == []


def test_named_units_without_cases_are_rejected(fake_units: None, tmp_path: Path) -> None:
    """A request without names gets the units with cases; one with names gets all, or a line for each missing unit."""
    (only,) = golden.generate(tmp_path / "all", kinds=["edge"], configs=["saturate", "w4"])
    assert only.name == "blender-saturate"
    with pytest.raises(Refused, match=r"got none for 2 of 3; nothing was written:\n") as refusal:
        golden.generate(
            tmp_path / "out",
            units=["meter", "blender", "inverter"],
            kinds=["paper", "edge"],
            configs=["saturate", "c4"],
        )

    assert str(refusal.value).splitlines()[1:] == [
        "  meter: none of its configurations is requested: w4",
        "  inverter: none of its configurations is requested: c",
    ]
    with pytest.raises(Refused, match=r"none for 1 of 2; nothing was written:\n  meter: no cases of kind exhaustive$"):
        golden.generate(tmp_path / "out", units=["blender", "meter", "meter"], kinds=["exhaustive"])
    assert not (tmp_path / "out").exists()


def test_units_without_model_cases_have_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kv_compressor has no tap, others have no operations or other sizes; only orizuru would have cases."""
    case = next(iter(units.find("orizuru").cases(units.find("orizuru").configs["n64"], "edge", 0)))
    monkeypatch.setattr(
        model_cases,
        "tapped",
        lambda run, progress, names: (
            {
                ("orizuru", "n64"): [dataclasses.replace(case, kind="model", config="n64")],
                ("index_matmul", "k=64"): [],
            }
            if "kllm" in run.scheme
            else {}
        ),
    )
    kllm = "kllm-a3"
    names, schemes = ["orizuru", "index_matmul", "kv_compressor", "page_manager"], [kllm, "leankv"]
    with pytest.raises(Refused, match="got none for 3 of 4; nothing was written:\n") as refusal:
        golden.generate(tmp_path, units=names, kinds=["model"], scheme=schemes, tokens=4)
    some, reasons = "4 tokens of tiny under scheme", "no cases of kind model"
    not_tapped = f"scheme {kllm} does not tap it"

    assert str(refusal.value).splitlines()[1:] == [
        f"  index_matmul: {reasons}; {some} {kllm} bring cases to k=64 only; scheme leankv does not tap it",
        f"  kv_compressor: {reasons}; {not_tapped}; {some} leankv bring nothing to its ports",
        f"  page_manager: {reasons}; {not_tapped}; {some} leankv bring nothing to its ports",
    ]
    assert list(tmp_path.iterdir()) == []


def test_arrays_are_those_of_the_unit(made: Path) -> None:
    loaded = sets.load(made / "blender-saturate")
    sums = loaded.arrays["in.first"].astype(int) + (loaded.arrays["in.second"].astype(int) ^ 8) - 8

    assert np.clip(sums, -16, 15).tolist() == ((loaded.arrays["out.both"][:, 0].astype(int) ^ 16) - 16).tolist()


def test_unit_is_tapped_under_its_scheme(
    fake_units: None, fake_model: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two schemes in one call, each set's manifest names its own."""

    def source(model: str | None, scheme: str | None, *rest: object, **options: object) -> model_cases.Source:
        return dataclasses.replace(RUN, scheme=scheme or "")

    def tapped(run: model_cases.Source, progress: object = None, units_: object = None) -> object:
        return {key: cases for key, cases in taps().items() if key[0] == run.scheme}

    monkeypatch.setattr(model_cases, "source", source)
    monkeypatch.setattr(model_cases, "tapped", tapped)
    golden.generate(tmp_path, kinds=["model"], scheme=["meter", "blender"])

    assert sets.load(tmp_path / "meter-w4").manifest["source"]["scheme"] == "meter"
    assert sets.load(tmp_path / "blender-wrap").manifest["source"]["scheme"] == "blender"
    with pytest.raises(Refused, match="schemes meter and meter both tap meter-w4; give each scheme its own folder"):
        golden.generate(tmp_path, kinds=["model"], scheme=["meter", "meter"])


def test_missing_model_cases_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is at the first set of its unit; those of units without a set, or not reached, at the first of all."""
    unit = units.find("orizuru")
    case = dataclasses.replace(next(iter(unit.cases(unit.configs["n64"], "edge", 0))), kind="model")
    found = {("orizuru", "n64"): [case], ("orizuru", "n=96"): [case] * 3, ("index_matmul", "k=64"): [case]}
    monkeypatch.setattr(model_cases, "tapped", lambda run, progress, names: found)
    monkeypatch.setattr(model_cases, "tapped_units", lambda run, names=(): {"orizuru", "index_matmul", "concat"})
    [made] = golden.generate(tmp_path, kinds=["model"], scheme="kllm-a3", tokens=4)

    assert made.name == "orizuru-n64" and made.left_out == ()
    assert made.elsewhere == (
        "3 cases of tiny under n=96; --unit orizuru:n=96 has them",
        "1 cases of tiny under k=64; --unit index_matmul:k=64 has them",
        "no case of concat: 4 tokens of tiny under scheme kllm-a3 bring nothing to its ports",
    )


@pytest.mark.parametrize("name", ["bfp_pe_array", "kv_compressor"])
def test_random_cases_are_independent_of_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases are drawn seed by seed, two by two, and all at once."""
    unit = units.find(name)
    config = next(iter(unit.configs))
    values = sum(
        array.size for block in unit.cases(unit.configs[config], "random", 0) for array in block.inputs.values()
    )
    ways = []
    for part in (1, 2 * values, 100 * values):
        monkeypatch.setattr(random_cases, "PART", part)
        ways.append(random_cases.random_cases(unit, config, 3, 5))
    for blocks in zip(*ways, strict=True):
        for port in unit.ports(unit.configs[config]).inputs:
            arrays = [block.inputs[port.name] for block in blocks]
            assert {array.dtype for array in arrays} == {port.dtype}
            assert {array.tobytes() for array in arrays} == {arrays[0].tobytes()} and len(arrays[0]) % 5 == 0
