"""Units of other distributions: found by name, named in errors, rejected if ambiguous."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from refemu import golden, plugins, units
from refemu.arith.checks import Refused
from refemu.cli import list as listing
from refemu.cli import main
from refemu.golden.files import manifest as manifests
from tests.plugin_distribution import CLIPPER, installed, write

LOUD = CLIPPER.replace("clipper", "loud")


@pytest.fixture
def acme(tmp_path: Path) -> Iterator[Path]:
    """The distribution `acme-clip`, with the unit `clipper`."""
    folder = tmp_path / "site"
    write(folder, "Acme_Clip", {"units clipper": "acme_clip:UNIT"}, {"acme_clip.py": CLIPPER})
    with installed(folder):
        yield folder


def test_unit_is_found_by_short_and_full_name(acme: Path) -> None:
    unit = units.find("clipper")

    assert unit is units.find("acme-clip/clipper") is units.choose("clipper:b6")[0]
    assert (unit.key, unit.origin) == ("acme-clip/clipper", plugins.Origin("acme-clip", "1.2"))
    assert "clipper" in units.plugged() and "clipper" not in units.names()


def test_every_command_takes_a_plug_in(acme: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "vec"
    written = golden.generate(out, units=["clipper:b4"], hex=True, bin=True)
    loaded = golden.load(out / "acme-clip.clipper-b4")

    assert [each.name for each in written] == ["acme-clip.clipper-b4"]
    assert loaded.manifest["unit"] == "acme-clip/clipper" and loaded.manifest["distribution_version"] == "1.2"
    assert (out / "acme-clip.clipper-b4" / "include" / "clipper_vec.h").is_file()
    assert golden.check(out).equal
    answers = {name: loaded.arrays[name].copy() for name in ("out.clipped", "out.over")}
    np.savez(tmp_path / "right.npz", **answers)
    answers["out.clipped"][7] ^= 1
    np.savez(tmp_path / "wrong.npz", **answers)
    seen = [golden.diff(out / "acme-clip.clipper-b4", tmp_path / f"{name}.npz") for name in ("right", "wrong")]
    assert [each.rows_differ for each in seen] == [0, 1] and seen[1].unit == "acme-clip/clipper"
    for words in (
        ["step", "clipper", "--input", "value=9,-100"],
        ["grade", str(out / "acme-clip.clipper-b4")],
        ["grade", str(out / "acme-clip.clipper-b4"), "--class", "model"],
        ["step", "acme-clip/clipper", "--case", f"{out / 'acme-clip.clipper-b4'}:3"],
        ["export", "rtl", "clipper", "-o", str(tmp_path / "rtl")],
        ["export", "dpi", "clipper", "-o", str(tmp_path / "dpi")],
        ["generate", "-o", str(tmp_path / "campaign"), "--unit", "clipper", "--cases", "100"],
        ["check", str(tmp_path / "campaign")],
        ["explain", "clipper"],
    ):
        assert main(words) == 0, (words, capsys.readouterr())
    assert (tmp_path / "campaign" / "acme-clip.clipper-b6").is_dir()


def test_missing_distribution_is_named(acme: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden.generate(tmp_path / "vec", units=["clipper:b4"])
    code = "import sys; from refemu.cli import main; sys.exit(main(sys.argv[1:]))"
    for command in (["check", "vec"], ["grade", "vec/acme-clip.clipper-b4"], ["step", "acme-clip/clipper"]):
        ran = subprocess.run([sys.executable, "-c", code, *command], cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 2
        assert "no distribution acme-clip with a unit is installed" in ran.stderr


def test_error_in_plug_in_names_its_line(acme: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = CLIPPER.replace("clipped = min(", "unknown = nothing\n        clipped = min(")
    line = next(number for number, text in enumerate(source.splitlines(), 1) if "nothing" in text)
    (acme / "acme_clip.py").write_text(source)

    assert main(["generate", "-o", str(tmp_path / "vec"), "--unit", "clipper"]) == 3
    assert f"error inside plug-in acme-clip: {acme / 'acme_clip.py'}:{line}" in capsys.readouterr().err


def test_new_version_with_equal_bits_checks_equal(tmp_path: Path) -> None:
    for version in ("1.2", "1.3"):
        write(tmp_path / version, "acme-clip", {"units clipper": "acme_clip:UNIT"}, {"acme_clip.py": CLIPPER}, version)
    with installed(tmp_path / "1.2"):
        golden.generate(tmp_path / "vec", units=["clipper:b4"])
    with installed(tmp_path / "1.3"):
        assert units.find("clipper").origin.version == "1.3"
        assert golden.check(tmp_path / "vec").equal
        golden.generate(tmp_path / "vec", units=["clipper:b4"])
        assert golden.load(tmp_path / "vec" / "acme-clip.clipper-b4").manifest["distribution_version"] == "1.2"


def test_broken_plug_ins_are_named_others_work(acme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        acme,
        "torn",
        {"units torn": "torn:UNIT", "units lost": "no_such_module:UNIT", "units shut": "twice:UNIT"},
        {
            "torn.py": "raise RuntimeError('no licence')\n",
            "twice.py": CLIPPER.replace("clipper", "shut").replace('Port("over", 1)', 'Port("value", 1)'),
        },
    )
    plugins.refresh()
    assert main(["list", "units", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    errors = {each["key"]: each["error"] for each in document["broken"]}

    assert {"clipper", "concat"} <= {row["unit"] for row in document["units"]}
    assert set(errors) == {"torn/torn", "torn/lost", "torn/shut"}
    assert "does not load: RuntimeError: no licence" in errors["torn/torn"] and "torn.py:1" in errors["torn/torn"]
    assert "no_such_module" in errors["torn/lost"]
    assert "port names must be unique, got 'value' 2 times" in errors["torn/shut"]
    assert main(["step", "torn"]) == 2
    assert "plug-in torn 1.2: unit torn does not load: RuntimeError: no licence" in capsys.readouterr().err
    assert main(["list", "units"]) == 0
    printed = capsys.readouterr()
    assert "clipper" in printed.out and printed.err.count("plug-in torn 1.2") == 3


def test_plug_in_that_exits_does_not_end_refemu(acme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(acme, "rude", {"units rude": "rude:UNIT"}, {"rude.py": "import sys\nsys.exit(5)\n"})
    plugins.refresh()
    assert main(["list", "units"]) == 0

    printed = capsys.readouterr()
    assert "clipper" in printed.out and "unit rude does not load: SystemExit: 5" in printed.err
    assert main(["step", "rude"]) == 2


def test_slow_plug_in_is_named(acme: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write(acme, "slow", {"units slow": "slow:UNIT"}, {"slow.py": "import time\ntime.sleep(0.2)\n"})
    monkeypatch.setattr(plugins, "SLOW_S", 0.05)
    plugins.refresh()

    assert main(["step", "slow"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "refemu: plug-in slow 1.2: unit slow: is still loading" and "does not load" in lines[1]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("class Panic(BaseException): pass\nraise Panic('x')", "Panic: x"),
        ("import asyncio\nraise asyncio.CancelledError", "CancelledError"),
        ("import pytest\npytest.skip('x', allow_module_level=True)", "Skipped"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute", "message cannot be shown"),
    ],
    ids=["panic", "cancelled", "skipped", "exit of a generator", "no message"],
)
def test_any_exception_of_plug_in_is_caught(
    source: str, shown: str, acme: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1 would mean that something differs."""
    write(acme, "rude", {"units rude": "rude:UNIT"}, {"rude.py": source})
    plugins.refresh()

    assert main(["list", "units"]) == 0
    assert shown in capsys.readouterr().err
    assert main(["step", "rude"]) == 2


@pytest.mark.parametrize(("group", "named"), [("refemu.units", 1), ("console_scripts", 0)])
def test_unreadable_entry_points_do_not_affect_others(
    group: str, named: int, acme: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of any distribution; it is named where it would bring something to refemu."""
    write(acme, "torn", {"units torn": "torn:UNIT"}, {"torn.py": ""})
    (points,) = acme.glob("torn-*.dist-info/entry_points.txt")
    points.write_text(f"[{group}]\nno equals sign\n", "utf-8")
    plugins.refresh()
    assert main(["list", "units"]) == 0

    printed = capsys.readouterr()
    assert "clipper" in printed.out
    assert printed.err.count("plug-in torn 1.2: its entry_points.txt cannot be read") == named
    assert main(["--version", "--json"]) == 0


@pytest.mark.parametrize("damage", ["no metadata", "no text"])
def test_half_removed_distribution_is_ignored(damage: str, acme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(acme, "torn", {"units torn": "torn:UNIT"}, {"torn.py": ""})
    (folder,) = acme.glob("torn-*.dist-info")
    if damage == "no metadata":
        (folder / "METADATA").unlink()
    else:
        (folder / "entry_points.txt").write_bytes(b"[refemu.units]\n\xff = 3\n")
    plugins.refresh()
    assert main(["list", "units"]) == 0

    printed = capsys.readouterr()
    assert "clipper" in printed.out
    assert ("entry_points.txt cannot be read" in printed.err) == (damage == "no text")


def test_warning_of_plug_in_is_printed(acme: Path, tmp_path: Path) -> None:
    """As any module: on the command line with its place."""
    write(acme, "loud", {"units loud": "loud:UNIT"}, {"loud.py": f"import warnings\nwarnings.warn('careful')\n{LOUD}"})
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(acme), str(Path(__file__).parents[1])])}
    command = [sys.executable, "-m", "refemu", "step", "loud", "--input", "value=3"]
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)

    assert ran.returncode == 0, ran.stderr
    assert "loud.py:2: UserWarning: careful" in ran.stderr


def test_grade_ignores_broken_fault_library(acme: Path, tmp_path: Path) -> None:
    """The library is named, since its faults are unknown."""
    write(acme, "torn", {"faults concat": "torn:LIBRARY"}, {"torn.py": "raise RuntimeError('no licence')\n"})
    command = [sys.executable, "-m", "refemu", "explain", "concat"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(acme), str(Path(__file__).parents[1])])}
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)

    assert ran.returncode == 0 and "decisions of concat" in ran.stdout
    assert ran.stderr.strip().startswith(
        "refemu: plug-in torn 1.2: fault concat does not load: RuntimeError: no licence"
    )
    assert len(ran.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("acme-clip/concat", r"unknown unit 'acme-clip/concat'.* 'acme-clip/clipper'"),
        ("acme-clip/cliper", "unknown unit 'acme-clip/cliper'; did you mean 'acme-clip/clipper'"),
        ("refemu/orizuru", "a unit of refemu has no '/'; write orizuru"),
        ("/clipper", "a distribution is needed before '/', got nothing"),
        ("acme/clipper", "no distribution acme with a unit is installed"),
    ],
)
def test_unknown_full_names_are_rejected(name: str, message: str, acme: Path) -> None:
    with pytest.raises(Refused, match=message):
        units.find(name)


@pytest.mark.parametrize("name", ["acme_clip/clipper", "Acme-Clip/clipper", "acme.clip/clipper"])
def test_names_of_distributions_are_normalised(name: str, acme: Path) -> None:
    assert units.find(name) is units.find("acme-clip/clipper")


def test_ambiguous_names_need_their_distribution(acme: Path) -> None:
    write(
        acme,
        "other",
        {"units clipper": "other_clip:UNIT", "units concat": "other_concat:UNIT"},
        {"other_clip.py": CLIPPER, "other_concat.py": CLIPPER.replace("clipper", "concat")},
    )
    plugins.refresh()
    with pytest.raises(Refused, match="several distributions have it; give one of acme-clip/clipper, other/clipper"):
        units.find("clipper")

    assert units.find("other/clipper").origin.distribution == "other"
    assert units.find("concat").paper.startswith("kllm") and units.find("other/concat").key == "other/concat"
    assert {"acme-clip/clipper", "other/clipper", "other/concat"} <= set(units.plugged())


def test_entry_point_must_have_name_of_unit(acme: Path) -> None:
    write(acme, "misnamed", {"units trimmer": "acme_clip:UNIT"}, {})
    plugins.refresh()
    with pytest.raises(Refused, match="entry point must have the unit's name, clipper"):
        units.find("trimmer")


def test_unit_object_replaces_a_name(tmp_path: Path) -> None:
    sys.modules["notebook"] = type(sys)("notebook")
    exec(CLIPPER.replace('"clipper"', '"trimmer"'), vars(sys.modules["notebook"]))
    unit = vars(sys.modules["notebook"])["UNIT"]
    try:
        golden.generate(tmp_path, units=[unit])
        assert listing.units()[-1]["unit"] == "trimmer"
        assert golden.check(tmp_path).equal and golden.grade_set(tmp_path / "trimmer-b4").passes is not None
        assert "distribution_version" not in golden.load(tmp_path / "trimmer-b4").manifest
        assert golden.variants(unit) == ()
        with pytest.raises(Refused, match="class model changes sources, but module notebook has no file"):
            golden.grade_set(tmp_path / "trimmer-b4", classes=["model"])
        units.unregister("trimmer")
        checked, *_ = golden.check(tmp_path).refused
        assert "trimmer-b4: unknown unit 'trimmer'" in checked.refused
    finally:
        units.unregister("trimmer")
        del sys.modules["notebook"]


def test_unit_object_of_refemu_gives_equal_bytes(tmp_path: Path) -> None:
    golden.generate(tmp_path / "a", units=[units.find("concat")], kinds=["paper", "edge"])
    golden.generate(tmp_path / "b", units=["concat"], kinds=["paper", "edge"])
    texts = [(tmp_path / each / "concat-a4" / "manifest.json").read_bytes() for each in "ab"]

    assert texts[0] == texts[1] and b"distribution" not in texts[0]
    assert manifests.parse(texts[0], "concat")["unit"] == "concat"


def test_own_name_reads_no_metadata(acme: Path) -> None:
    code = "from refemu import plugins, units; units.find('concat'); print(plugins.plugs.cache_info().misses)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout == "0\n"


DECISIONS = """# Decisions

### D-acme-1 A value beyond the codes
Saturates. It may wrap instead.

Pinned by `tests/test_clip.py::test_ends`.

### D-olive-1 Named as one of refemu's
Of no consequence.
"""
OTHERS = """
import numpy as np

from refemu.units import Variant


def wrapped(config, inputs, result):
    high = 1 << (config["bits"] - 1)
    return {"clipped": (inputs["value"].astype(int) + high) % (2 * high) - high}


VARIANTS = (Variant("D-acme-1", "the upper bits are lost", answer=wrapped),)
FAULTS = (Variant("F-acme-1", "never over", answer=lambda config, inputs, result: {"over": 0 * result.over}),)
"""


#: of Clipper, with a parameter that names a decision of the distribution
DOCUMENTED = '''-> None:
        """Choose the code.

        Parameters
        ----------
        bits : int
            Bits of a code (D-olive-1).
        """
        if not 2 <= bits'''


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[None]:
    """The distribution `acme-clip` as a package with decisions, other answers and a fault."""
    clipper = CLIPPER.replace("-> None:\n        if not 2 <= bits", DOCUMENTED)
    files = {
        "acme/__init__.py": "",
        "acme/decisions.md": DECISIONS,
        "acme/clipper.py": clipper.replace("clipped = min(", "# D-acme-1\n        clipped = min("),
        "acme/variants.py": OTHERS,
    }
    write(tmp_path / "site", "Acme_Clip", {"units clipper": "acme.clipper:UNIT"}, files)
    with installed(tmp_path / "site"):
        yield


def test_decisions_of_plug_in_are_explained(whole: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden.generate(tmp_path / "vec", units=["clipper:b4"])
    told = {}
    for words in (
        ["explain", "D-acme-1", "--json"],
        ["explain", "acme-clip/D-olive-1", "--json"],
        ["explain", "D-olive-1", "--json"],
        ["explain", "D-acme-1", "--set", str(tmp_path / "vec" / "acme-clip.clipper-b4"), "--json"],
        ["explain", "acme-clip/clipper", "--json"],
        ["explain", "clipper.bits", "--json"],
        ["explain", "clipper.over", "--json"],
        ["list", "decisions", "--json"],
    ):
        assert main(words) == 0, (words, capsys.readouterr())
        told[" ".join(words[:2]) + " --set" * ("--set" in words)] = json.loads(capsys.readouterr().out)
    entry = told["explain D-acme-1"]

    assert (entry["title"], entry["origin"]) == ("A value beyond the codes", "acme-clip")
    assert entry["test"] == "tests/test_clip.py::test_ends" and entry["text"] == "Saturates. It may wrap instead."
    assert [each["name"] for each in entry["taken"]] == ["Clipper._open"]
    assert [(each["unit"], each["says"]) for each in entry["variants"]] == [("clipper", "the upper bits are lost")]
    assert told["explain D-acme-1 --set"]["choices"][0]["rows"] > 100
    assert told["explain acme-clip/D-olive-1"]["title"] == "Named as one of refemu's"
    assert (
        told["explain D-olive-1"]["origin"] == "" and told["explain D-olive-1"]["title"] != "Named as one of refemu's"
    )
    assert [each["decision"] for each in told["explain acme-clip/clipper"]["variants"]] == ["D-acme-1", "F-acme-1"]
    assert told["explain clipper.bits"]["parameter"]["default"] == "4"
    assert told["explain clipper.bits"]["decisions"] == [{"id": "D-olive-1", "title": "Named as one of refemu's"}]
    assert told["explain clipper.over"]["port"]["direction"] == "output"
    listed = {(each["id"], each["of"]) for each in told["list decisions"]["decisions"]}
    assert {("D-acme-1", "acme-clip"), ("D-olive-1", "acme-clip"), ("D-olive-1", ""), ("D-kllm-27", "")} <= listed
    assert main(["explain", "D-acme-1"]) == 0
    assert "the upper bits are lost" in capsys.readouterr().out
    assert main(["explain", "D-acme-7"]) == 2
    assert "unknown decision 'D-acme-7'; did you mean 'D-acme-1'" in capsys.readouterr().err


def test_pages_of_plug_in_sets_have_decisions(whole: None, tmp_path: Path) -> None:
    golden.generate(tmp_path / "vec", units=["clipper:b4"])
    path = tmp_path / "vec" / "acme-clip.clipper-b4"
    difference = golden.diff(path, wrapping(path, tmp_path / "wrong.npz"), explain=True)

    assert difference.explanations[0].id == "D-acme-1"
    assert main(["step", "clipper", "--case", f"{path}:3", "--html", str(tmp_path / "step.html")]) == 0
    assert "A value beyond the codes" in (tmp_path / "step.html").read_text()


def wrapping(path: Path, answers: Path) -> Path:
    """Answers of a device that loses the upper bits."""
    arrays = golden.load(path).arrays
    np.savez(answers, **{"out.clipped": arrays["in.value"] & 15, "out.over": arrays["out.over"]})
    return answers
