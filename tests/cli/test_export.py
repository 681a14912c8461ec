"""`refemu export`: forms that `refemu diff` reads, and benches that preserve the user's files."""

from pathlib import Path

import pytest

from refemu import golden
from refemu.cli import main


def test_exported_set_is_read_by_diff(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden.generate(tmp_path / "vec", units=["outlier_decoder"], kinds=["paper", "edge"])
    name = str(tmp_path / "vec" / "outlier_decoder-e2m1")
    assert main(["export", "csv", name, "-o", str(tmp_path / "a.csv")]) == 0
    assert main(["diff", name, str(tmp_path / "a.csv")]) == 0
    (tmp_path / "b.csv").write_text((tmp_path / "a.csv").read_text().replace(",2,", ",3,", 1))
    assert main(["diff", name, str(tmp_path / "b.csv")]) in (1, 2)
    capsys.readouterr()

    assert main(["export", "testfloat", name]) == 0
    (tmp_path / "a.tf").write_text(capsys.readouterr().out)
    assert main(["diff", name, str(tmp_path / "a.tf")]) == 0


def test_export_preserves_files_of_the_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "rtl", "flint_decoder", "-o", str(tmp_path)]) == 0
    assert "fill in" in capsys.readouterr().out
    (tmp_path / "flint_decoder.v").write_text("mine")
    (tmp_path / "Makefile").unlink()
    assert main(["export", "rtl", "flint_decoder", "-o", str(tmp_path)]) == 0
    assert (tmp_path / "flint_decoder.v").read_text() == "mine"
    assert (tmp_path / "Makefile").exists()
    assert golden.load(tmp_path / "flint_decoder-flint4").manifest["hex"]


def test_export_with_a_map_asks_for_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A core exists, so the stub is not what to fill in."""
    (tmp_path / "map.json").write_text('{"top": "mine", "clock": null, "reset": null}')
    words = ["export", "rtl", "flint_decoder", "-o", str(tmp_path / "bench"), "--map", str(tmp_path / "map.json")]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert 'run make DEVICE="YOUR SOURCES" in' in said and "fill in" not in said


def test_unknown_names_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "rtl", "flint_decodre", "-o", str(tmp_path)]) == 2
    assert "did you mean 'flint_decoder'" in capsys.readouterr().err
    assert main(["export", "rtl", "flint_decoder", "--config", "x", "-o", str(tmp_path)]) == 2


@pytest.mark.long
def test_formal_reference_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("bitwuzla")
    assert main(["export", "formal", "olive_mac:saturate", "-o", str(tmp_path / "formal")]) == 0

    assert "rows through the terms equal the compiled form" in capsys.readouterr().out
    written = {path.name for path in (tmp_path / "formal").iterdir()}
    assert {"olive_mac_ref.sv", "olive_mac_props.sv", "olive_mac_ref.c", "olive_mac_ref.smt2"} < written


@pytest.mark.long
@pytest.mark.parametrize(("unit", "line"), [("fp2half", "fp2half.py:"), ("page_table", "page_table.py:")])
def test_unit_without_terms_writes_nothing(
    unit: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "formal", unit, "-o", str(tmp_path / "formal")]) == 2

    error = capsys.readouterr().err
    assert line in error and error.count("\n") == 1
    assert not (tmp_path / "formal").exists()


@pytest.mark.long
def test_terms_unlike_the_unit_exit_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from refemu.prove import selfcheck

    def differs(*_: object) -> int:
        raise selfcheck.Disagrees("concat: row 0")

    monkeypatch.setattr(selfcheck, "check", differs)
    assert main(["export", "formal", "concat", "-o", str(tmp_path / "formal")]) == 3
    assert "error inside refemu" in capsys.readouterr().err and not (tmp_path / "formal").exists()
