"""Places of sets, answers, logs and campaigns."""

from pathlib import Path

import pytest

from refemu import golden
from refemu.arith.checks import Refused
from refemu.golden.report import places


def names(paths: list[Path], root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in paths]


def test_parts_below_a_folder_are_found(run: Path) -> None:
    (run / ".hidden").mkdir()
    (run / ".hidden" / "x.log").touch()
    (run / "campaign.json").touch()
    files = places.find(run, "campaign.json")

    assert names(list(files.sets), run)[:3] == ["bench/outlier_decoder-e2m1", "olive_mac-wrap", "ovp_decoder-int4"]
    assert len(files.sets) == 4
    assert names(list(files.logs), run) == ["bench/build/icarus.log"] and files.campaigns == (run,)


def test_folder_without_a_set_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("PASS")
    with pytest.raises(Refused, match="golden set is a folder"):
        places.find(tmp_path, "campaign.json")


def test_answers_are_found_in_every_place(run: Path) -> None:
    folder, bench = run / "ovp_decoder-int4", run / "bench" / "outlier_decoder-e2m1"
    (folder / "answers.csv").touch()
    (run / "ovp_decoder-int4.answers.d").mkdir()
    assert names(places.answers(folder, golden.load(folder)), run) == [
        "ovp_decoder-int4/answers.csv",
        "ovp_decoder-int4.answers.npz",
    ]
    assert places.answers(bench, golden.load(bench)) == []
    (run / "bench" / "build" / "dut.mem").touch()
    assert names(places.answers(bench, golden.load(bench)), run) == ["bench/build/dut.mem"]
    (run / "bench" / "tb_outlier_decoder.v").unlink()  # then `build` is not a testbench's
    assert places.answers(bench, golden.load(bench)) == []


def test_saved_counterexample_has_its_answer(run: Path) -> None:
    (manifest,) = (run / "saved").rglob("manifest.json")
    folder = manifest.parent
    assert places.is_counterexample(golden.load(folder))
    assert places.answers(folder, golden.load(folder)) == [folder.parent / "dut.npz"]
    (run / "dut.npz").touch()  # next to a set that no test saved
    assert run / "dut.npz" not in places.answers(run / "olive_mac-wrap", golden.load(run / "olive_mac-wrap"))


def test_log_belongs_to_set_by_name() -> None:
    folders = [Path("r/a-x"), Path("r/a-xy")]
    assert list(places.names_of(Path("r/a-x.icarus.log"), folders)) == [Path("r/a-x")]
    assert list(places.names_of(Path("r/a-xy/any.log"), folders)) == [Path("r/a-xy")]
    assert list(places.names_of(Path("r/other.log"), folders)) == []
