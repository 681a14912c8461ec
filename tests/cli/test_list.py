"""`refemu list`: tables and JSON of every kind, and the cache of the rows of units."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refemu import home, plugins, units
from refemu.cli import main, unit_rows


@pytest.mark.parametrize("kind", ["formats", "units", "schemes", "models"])
def test_kind_as_table_and_json(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", kind]) == 0
    table = capsys.readouterr().out
    assert main(["list", kind, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)[kind]

    assert rows
    assert all(str(row.get("name", row.get("unit"))) in table for row in rows)


def test_units_show_ports_with_widths_and_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list", "units", "--json"])
    rows = json.loads(capsys.readouterr().out)["units"]
    (row,) = [row for row in rows if (row["unit"], row["config"]) == ("ovp_decoder", "int4")]

    assert (row["in"], row["out"]) == ("pair:8 bias:4", "exponent:4x2 base_int:s4x2 illegal:1")
    assert "olive" in row["paper"]


@pytest.fixture()
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two old sources, and an empty cache."""
    monkeypatch.setenv("REFEMU_HOME", str(tmp_path / "home"))
    for name in ("units/kllm/one.py", "formats/two.py"):
        source = tmp_path / "package" / name
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text("ONE = 1\n")
        os.utime(source, (1, 1))
    return tmp_path / "package"


class Maker:
    """Computes rows, and counts the calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> list[dict[str, Any]]:
        self.calls += 1
        return [{"unit": "one", "in": f"x:{self.calls}"}]


def test_unit_rows_are_computed_once(package: Path) -> None:
    make = Maker()

    assert unit_rows.remembered(make, package) == unit_rows.remembered(make, package) == [{"unit": "one", "in": "x:1"}]
    assert make.calls == 1


def _resize(package: Path) -> None:
    source = package / "units/kllm/one.py"
    source.write_text("ONE = 11\n")
    os.utime(source, (1, 1))


def _redate(package: Path) -> None:
    os.utime(package / "formats/two.py", ns=(1, 1))


def _add(package: Path) -> None:
    source = package / "units/three.py"
    source.write_text("")
    os.utime(source, (1, 1))


def _reprint(package: Path) -> None:
    source = package / "cli/list.py"
    source.parent.mkdir()
    source.write_text("")
    os.utime(source, (1, 1))


def _rename(package: Path) -> None:
    (package / "formats/two.py").rename(package / "formats/four.py")


@pytest.mark.parametrize("change", [_resize, _redate, _add, _reprint, _rename])
def test_unit_rows_of_changed_sources_are_discarded(package: Path, change: Callable[[Path], None]) -> None:
    make = Maker()
    unit_rows.remembered(make, package)
    change(package)

    assert unit_rows.remembered(make, package) == [{"unit": "one", "in": "x:2"}]


@pytest.mark.parametrize("name", ["__version__", "LAYERS"])
def test_unit_rows_of_another_version_are_discarded(package: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    make = Maker()
    unit_rows.remembered(make, package)
    monkeypatch.setattr(unit_rows, name, {"__version__": "0.0.1", "LAYERS": ("units",)}[name])

    assert unit_rows.remembered(make, package) == [{"unit": "one", "in": "x:2"}]


@pytest.mark.parametrize("damage", [b"", b"\xff", b"[]", b"0\n[]", b"other"])
def test_damaged_cache_of_rows_is_replaced(package: Path, damage: bytes) -> None:
    make = Maker()
    unit_rows.remembered(make, package)
    (memory,) = (home.cache_folder() / unit_rows.FOLDER).iterdir()
    good = memory.read_bytes()
    memory.write_bytes(good.replace(b"x:1", b"x:3") if damage == b"other" else damage)

    assert unit_rows.remembered(make, package) == unit_rows.remembered(make, package) == [{"unit": "one", "in": "x:2"}]
    assert make.calls == 2


def test_broken_links_are_not_sources(package: Path) -> None:
    (package / "units/.#one.py").symlink_to("nowhere")
    make = Maker()

    assert unit_rows.remembered(make, package) == unit_rows.remembered(make, package)


def test_package_without_files_is_not_cached(package: Path) -> None:
    make = Maker()

    assert unit_rows.remembered(make, package / "archive") != unit_rows.remembered(make, package / "archive")


def test_sources_changed_just_now_are_not_cached(package: Path) -> None:
    make = Maker()
    os.utime(package / "formats/two.py")

    assert unit_rows.remembered(make, package) != unit_rows.remembered(make, package)


def test_unwritable_cache_is_ignored(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (package / "file").write_text("")
    monkeypatch.setenv("REFEMU_HOME", str(package / "file"))

    assert unit_rows.remembered(Maker(), package) == [{"unit": "one", "in": "x:1"}]


def test_second_list_is_equal_without_importing_units(tmp_path: Path) -> None:
    words = (
        "import sys; from refemu.cli import main; code = main(sys.argv[1:]);"
        " print('refemu.units.unit' in sys.modules, file=sys.stderr); sys.exit(code)"
    )
    command = [sys.executable, "-W", "error", "-c", words, "list", "units", "--json"]
    environment = os.environ | {"REFEMU_HOME": str(tmp_path)}
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2)
    )

    assert first.stdout == second.stdout
    assert {row["unit"] for row in json.loads(second.stdout)["units"]} >= set(units.names())
    if not plugins.anything("unit", "fault"):  # else the units of plug-ins are loaded again
        assert (first.stderr, second.stderr) == ("True\n", "False\n")
