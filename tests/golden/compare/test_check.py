"""`check` finds every changed bit and names its place."""

import functools
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refemu import golden
from refemu.arith.checks import Refused, RefusedType
from refemu.golden.compare import check
from refemu.golden.compare.check import check_files
from refemu.golden.files import manifest as manifests
from refemu.golden.files import npz, sets, store
from refemu.golden.make import cross_check, model_cases
from refemu.golden.make import regenerate as generator_remake


def edit(path: Path, change: Any) -> None:
    path.write_bytes(change(path.read_bytes()))


def the_finding(folder: Path) -> str:
    report = golden.check(folder)
    (finding,) = report.findings

    assert not report.equal
    return str(finding).removeprefix(f"{folder}/")


def test_regenerated_sets_are_equal(made: Path) -> None:
    report = golden.check(made)

    assert report.equal
    assert report.findings == ()
    assert [one.name for one in report.sets] == ["blender-saturate", "blender-wrap", "meter-w4"]
    assert [(one.how, one.note, one.rows) for one in report.sets] == [
        ("regenerated", "", 28),
        ("regenerated", "", 28),
        ("regenerated", "", 12),
    ]


def test_deflated_vectors_are_compared_by_their_arrays(made: Path) -> None:
    """Sets in git are deflated: their bytes depend on zlib's build, their arrays do not."""
    path = made / "meter-w4" / sets.VECTORS
    arrays = npz.read(path.read_bytes(), "meter")
    path.write_bytes(npz.deflated(path.read_bytes(), "meter"))
    assert golden.check(made / "meter-w4").equal

    name = next(name for name in arrays if name.startswith("out."))
    changed = npz.to_bytes({**arrays, name: arrays[name] ^ 1})
    path.write_bytes(npz.deflated(changed, "meter"))
    assert re.match(rf"vectors.npz: byte \d{{3,}} is .*; {name}, row 0, lane 0: got", the_finding(made / "meter-w4"))


def test_folder_or_manifest_selects_one_set(made: Path) -> None:
    assert len(golden.check(made / "meter-w4").sets) == 1
    assert len(golden.check(made / "meter-w4" / "manifest.json").sets) == 1


def flips(data: bytes, step: int) -> Iterator[bytes]:
    """Copies of `data` with one flipped bit, for one bit of every `step`."""
    for at in range(0, 8 * len(data), step):
        changed = bytearray(data)
        changed[at // 8] ^= 1 << at % 8
        yield bytes(changed)


def unfound(
    files: dict[str, bytes], step: int, monkeypatch: pytest.MonkeyPatch, regenerate: Any
) -> dict[str, list[int]]:
    """File -> numbers of flipped bits that `check` misses. Work on intact bytes is done once."""
    monkeypatch.setattr(manifests, "parse", functools.cache(manifests.parse))
    assert check_files("set", files, regenerate=regenerate).findings == ()
    return {
        name: [
            at
            for at, changed in enumerate(flips(data, step))
            if not check_files("set", {**files, name: changed}, regenerate=regenerate).findings
        ]
        for name, data in files.items()
    }


#: with 9 the place in a byte differs from one to the next
STEPS = pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])


@STEPS
def test_every_flipped_bit_is_found(
    fake_units: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    golden.generate(tmp_path, units=["inverter"], kinds=["edge"], hex=True, bin=True)
    files = store.read(tmp_path / "inverter-c")
    cached = functools.cache(lambda digest: generator_remake.regenerate(json.loads(files["manifest.json"])))

    assert {name: [] for name in files} == unfound(
        files, step, monkeypatch, lambda manifest, progress: cached(manifest["self_sha256"])
    )
    assert len(files) == 10


@STEPS
def test_flipped_bits_are_found_without_the_weights(
    fake_units: None, fake_model: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Answers are regenerated from the stimulus on file, whose hashes are in the manifest."""
    golden.generate(tmp_path, units=["inverter"], kinds=["model"])
    files = store.read(tmp_path / "inverter-c")

    assert {name: [] for name in files} == unfound(files, step, monkeypatch, absent)


def absent(manifest: Any, progress: Any) -> Any:
    raise model_cases.Absent("no weights of toy; run: refemu models fetch toy")


def test_absent_weights_are_reported(
    fake_units: None, fake_model: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden.generate(tmp_path, units=["blender"])
    monkeypatch.setattr(generator_remake, "regenerate", absent)
    report = golden.check(tmp_path)

    assert report.equal
    assert (report.sets[0].how, report.sets[0].note) == (
        "hashes only",
        "no weights of toy; run: refemu models fetch toy",
    )


def test_answers_are_recomputed_without_the_weights(
    fake_units: None, fake_model: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The set agrees with its own hashes but not with the unit."""
    golden.generate(tmp_path, units=["blender"], kinds=["model"])
    folder = tmp_path / "blender-wrap"
    loaded = sets.load(folder)
    arrays = {name: array.copy() for name, array in loaded.arrays.items()}
    arrays["out.odd"][2] ^= 1
    manifest = {
        **loaded.manifest,
        "arrays": [{**one, "sha256": manifests.array_sha256(arrays[one["name"]])} for one in loaded.manifest["arrays"]],
    }
    store.replace(folder, sets.render(manifest, arrays))
    monkeypatch.setattr(generator_remake, "regenerate", absent)

    assert any("out.odd, row 2: got 0x0, must be 0x1" in str(finding) for finding in golden.check(folder).findings)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        pytest.param(
            "vectors.npz",
            lambda data: data[:-1],
            "vectors.npz: has .* bytes of .*; vectors.npz: not a readable .npz",
            id="truncated",
        ),
        pytest.param(
            "vectors.npz",
            lambda data: data.replace(b"\x00\x00!\x00", b"\x00\x00\x22\x00", 1),
            "vectors.npz: byte .*; ",
            id="date",
        ),
        pytest.param(
            "hex/gold.mem",
            lambda data: data[:50] + b"f" + data[51:],
            "hex/gold.mem: byte 50 is 0x66, must be 0x.., line 2: got ",
            id="hex",
        ),
        pytest.param(
            "hex/gold.mem",
            lambda data: data[:20],
            "hex/gold.mem: has 20 bytes of .*, line 1: got // 12 words",
            id="short",
        ),
        pytest.param(
            "bin/flags.bin", lambda data: b"\x01" + data[1:], "bin/flags.bin: byte 0 is 0x01, must be 0x00$", id="bin"
        ),
        pytest.param(
            "manifest.json", lambda data: data[:-2], "manifest.json: not the JSON of a manifest", id="manifest"
        ),
        pytest.param(
            "manifest.json",
            lambda data: data.replace(b'"0.1.0"', b'"0.1.1"'),
            "manifest.json: refemu_version is 0.1.1, refemu .* knows 0.1.0",
            id="release",
        ),
    ],
)
def test_finding_names_the_changed_place(name: str, change: Any, message: str, made: Path) -> None:
    edit(made / "meter-w4" / name, change)

    assert re.match(message, the_finding(made / "meter-w4"))


def test_finding_names_array_row_and_lane(made: Path) -> None:
    folder = made / "meter-w4"
    arrays = dict(npz.read((folder / "vectors.npz").read_bytes(), ""))
    wide = arrays["out.wide"].copy()
    wide[4, 2] ^= 0x100
    npz.write(folder / "vectors.npz", {**arrays, "out.wide": wide})

    assert "out.wide, row 4, lane 2: got 0x" in the_finding(folder)


def test_finding_names_field_of_consistent_manifest(made: Path) -> None:
    folder = made / "meter-w4"
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["cases"][1]["why"] = "another reason"
    (folder / "manifest.json").write_bytes(manifests.canonical(manifests.sealed(manifest)))

    assert "cases[1].why is 'another reason', must be 'some of everything'" in the_finding(folder)


@pytest.mark.parametrize("name", ["vectors.npz", "hex/stim.mem", "bin/in.add.bin", "include/meter_vec.svh"])
def test_a_missing_file_is_a_finding(name: str, made: Path) -> None:
    (made / "meter-w4" / name).unlink()
    report = golden.check(made / "meter-w4")

    assert [(name, "is missing")] == [
        (finding.file, finding.what) for finding in report.findings if not finding.file.endswith("/")
    ]


def test_a_foreign_file_is_a_finding(made: Path) -> None:
    (made / "meter-w4" / "notes.txt").write_text("mine")

    assert the_finding(made / "meter-w4") == "notes.txt: is not a file of this set"


def test_missing_manifest_is_one_finding_among_others(made: Path) -> None:
    (made / "meter-w4" / "manifest.json").unlink()

    assert [finding.file for finding in golden.check(made).findings] == ["manifest.json"]


def test_files_between_sets_are_ignored(made: Path) -> None:
    (made / "README.md").write_text("hello")
    shutil.copytree(made / "meter-w4", made / ".meter-w4.new-xyz")
    (made / ".meter-w4.new-xyz" / "vectors.npz").write_bytes(b"half")

    assert golden.check(made).equal
    assert len(golden.check(made).sets) == 3


def manifest_of(folder: Path, **fields: Any) -> None:
    manifest = {**json.loads((folder / "manifest.json").read_text()), **fields}
    (folder / "manifest.json").write_bytes(manifests.canonical(manifests.sealed(manifest)))


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(lambda folder: shutil.rmtree(folder), "no such folder", id="no folder"),
        pytest.param(
            lambda folder: (shutil.rmtree(folder), folder.write_text("a file")),
            "must be a folder of golden sets or a manifest.json, got a file",
            id="file",
        ),
        pytest.param(
            lambda folder: [path.unlink() for path in folder.rglob("*") if path.is_file()],
            "no manifest.json here or below",
            id="empty",
        ),
        pytest.param(
            lambda folder: (folder / "manifest.json").unlink(), "no manifest.json here or below", id="no manifest"
        ),
    ],
)
def test_folder_without_sets_is_rejected(spoil: Any, message: str, made: Path) -> None:
    spoil(made / "meter-w4")

    with pytest.raises(Refused, match=message):
        golden.check(made / "meter-w4")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(
            lambda folder: (folder / "manifest.json").write_text("{}"), "not a manifest of refemu", id="foreign"
        ),
        pytest.param(lambda folder: manifest_of(folder, schema="refemu.vectors/2"), "unknown schema", id="schema"),
        pytest.param(
            lambda folder: manifest_of(folder, name="meter-w5"),
            "unknown configuration 'w5' of meter",
            id="configuration",
        ),
        pytest.param(lambda folder: dangling(folder / "vectors.npz"), "No such file", id="link"),
    ],
)
def test_unreadable_set_does_not_stop_the_others(spoil: Any, message: str, made: Path) -> None:
    spoil(made / "meter-w4")
    report = golden.check(made)
    (checked,) = report.refused

    assert re.match(rf"{made / 'meter-w4'}\b.*{message}", checked.refused)
    assert [one.how for one in report.sets] == ["regenerated", "regenerated", "not regenerated"]
    assert (report.equal, report.findings) == (False, ())
    assert golden.check(made / "meter-w4").refused == report.refused


@pytest.mark.parametrize(
    "error", [RefusedType("cases must be Cases"), OSError("no disk"), ZeroDivisionError("by zero")]
)
def test_error_of_a_plugin_unit_is_reported(error: Exception, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other exception is reported for a plug-in only: in refemu it is an error in refemu."""

    def fails(*arguments: Any) -> None:
        raise error

    monkeypatch.setattr(cross_check, "require_equal", fails)
    if isinstance(error, ZeroDivisionError):
        with pytest.raises(ZeroDivisionError):
            golden.check(made)
        monkeypatch.setattr(check, "_is_plugged", lambda files: True)

    assert any(str(error) in checked.refused for checked in golden.check(made).refused)


def test_differing_compiled_form_is_reported(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def differs(unit: Any, config: Any, blocks: Any) -> None:
        raise Refused(f"{unit.name}: out must be 1, that of the readable form")

    monkeypatch.setattr(cross_check, "require_equal", differs)
    reasons = [checked.refused for checked in golden.check(made).refused]

    assert f"{made / 'meter-w4'}: meter: out must be 1, that of the readable form" in reasons


def test_progress_counts_sets_and_rows(made: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    golden.check(made, progress=lambda *event: seen.append(event))

    assert seen == [("check", 0, 3), ("check", 1, 3), ("check", 2, 3), ("check", 3, 3)]
