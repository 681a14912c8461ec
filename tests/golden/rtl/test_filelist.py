"""File lists and the Makefile's variables for the cocotb testbench: absolute paths."""

from pathlib import Path

import pytest

from refemu.arith.checks import Refused
from refemu.golden.rtl.filelist import Sources


def test_nested_list_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CORE", "ip/core")
    Path("all.f").write_text(
        "# sources\n+incdir+inc+$CORE/inc // headers\n-f more.f\n+define+WIDE+DEPTH=3\ntop.sv\n-Wno-x\n"
    )
    Path("more.f").write_text("${CORE}/pkg.sv\n-Iother -DFAST=1\n")
    sources = Sources.of_environment(
        "icarus",
        {
            "FILELIST": "all.f",
            "DEVICE": "mine.v",
            "SHELL_V": "shell.v",
            "INCLUDE": "more",
            "DEFINES": "A B=2",
            "FLAGS": "-gx",
        },
    )

    assert sources.files == [str(tmp_path / name) for name in ("ip/core/pkg.sv", "top.sv", "mine.v", "shell.v")]
    assert sources.includes == [str(tmp_path / name) for name in ("inc", "ip/core/inc", "other", "more")]
    assert sources.defines == {"FAST": "1", "WIDE": "1", "DEPTH": "3", "A": "1", "B": "2"}
    assert sources.words == ["-Wno-x", "-gx", "-g2012", "-Wportbind"]


def test_verilator_warning_does_not_end_the_build() -> None:
    assert Sources.of_environment("verilator", {"SHELL_V": "s.v"}).words == ["-Wno-fatal", "--timing"]


def test_unreadable_lists_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no such file list"):
        Sources().read(tmp_path / "none.f")
    (tmp_path / "loop.f").write_text(f"-f {tmp_path / 'loop.f'}")
    with pytest.raises(Refused, match=r"loop\.f: file lists must not name themselves"):
        Sources().read(tmp_path / "loop.f")
    for number in range(30):
        (tmp_path / f"{number}.f").write_text(f"-f {tmp_path / str(number + 1)}.f")
    with pytest.raises(Refused, match="nor be nested deeper than 20"):
        Sources().read(tmp_path / "0.f")
    for content, message in ((b"\xff", "not a file list in UTF-8: "), (bytes(1 << 21), "at most")):
        (tmp_path / "odd.f").write_bytes(content)
        with pytest.raises(Refused, match=rf"odd\.f: .*{message}"):
            Sources().read(tmp_path / "odd.f")
