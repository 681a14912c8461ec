"""Results of a regression: what passes, what does not, and why."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from refemu import golden
from refemu.arith.checks import Refused
from refemu.golden.compare import diff_text
from refemu.golden.report.regression import Regression, Reported, regression, worst
from tests.golden.report.conftest import campaign, outputs


def only(outcome: Regression, name: str) -> Reported:
    (each,) = [each for each in outcome.sets if each.name == name and each.kind != "counterexample"]
    return each


def test_every_set_has_a_result(outcome: Regression) -> None:
    outcomes = {each.path.split("/")[0]: (each.outcome, each.kind) for each in outcome.sets}

    assert outcomes == {
        "bench": ("fail", "set"),
        "olive_mac-wrap": ("fail", "set"),
        "ovp_decoder-int4": ("pass", "set"),
        "saved": ("fail", "counterexample"),
    }
    assert outcome.counts == {"pass": 1, "not compared": 0, "malformed": 0, "fail": 3}
    assert (outcome.outcome, outcome.code) == ("fail", 1)


def test_a_difference_is_that_of_diff(outcome: Regression, made_once: Path) -> None:
    (answer,) = only(outcome, "olive_mac-wrap").answers
    folder = made_once / "olive_mac-wrap"

    assert list(answer.lines) == diff_text.lines(golden.diff(folder, folder / "answers.npz", explain=True))
    assert answer.difference and (answer.rows, answer.rows_differ) == (
        answer.difference.rows,
        answer.difference.rows_differ,
    )
    assert any("row_shift" in line for line in answer.lines)


def test_counterexample_compares_ports_of_its_test(outcome: Regression) -> None:
    (each,) = [each for each in outcome.sets if each.kind == "counterexample"]
    (answer,) = each.answers

    assert answer.difference and answer.difference.compared == ("out.base_int",)
    assert each.coverage and each.coverage.grade is None
    assert each.commands[0].run.startswith("pytest ")


def test_all_passing_gives_exit_code_0(run: Path) -> None:
    for folder in ("saved", "bench", "olive_mac-wrap"):
        shutil.rmtree(run / folder)
    outcome = regression(run, "none")
    assert (outcome.code, outcome.outcome) == (0, "pass")


def test_set_without_answers_gives_exit_code_2(run: Path) -> None:
    """All other sets pass; a crashed device leaves no answers."""
    for folder in ("saved", "bench"):
        shutil.rmtree(run / folder)
    (run / "olive_mac-wrap" / "answers.npz").unlink()
    outcome = regression(run, "none")
    assert (outcome.code, only(outcome, "olive_mac-wrap").outcome) == (2, "not compared")


def test_unreadable_files_are_malformed(run: Path) -> None:
    """An answer without a port is malformed too."""
    shutil.rmtree(run / "saved")
    shutil.rmtree(run / "bench")
    lacking = outputs(run / "olive_mac-wrap")
    del lacking["out.overflow"]
    np.savez(run / "olive_mac-wrap" / "answers.npz", **lacking)
    vectors = run / "ovp_decoder-int4" / "vectors.npz"
    vectors.write_bytes(vectors.read_bytes()[:-9])
    outcome = regression(run, "none")

    assert {each.name: each.outcome for each in outcome.sets} == dict.fromkeys(
        ("olive_mac-wrap", "ovp_decoder-int4"), "malformed"
    )
    assert "has no out.overflow" in only(outcome, "olive_mac-wrap").answers[0].reason
    assert "vectors.npz" in only(outcome, "ovp_decoder-int4").reason and outcome.code == 2


def test_the_worst_of_several_answers_counts(run: Path) -> None:
    wrong = outputs(run / "ovp_decoder-int4")
    wrong["out.illegal"][3] ^= 1
    np.savez(run / "ovp_decoder-int4" / "answers.npz", **wrong)
    each = only(regression(run, "none"), "ovp_decoder-int4")
    assert [answer.outcome for answer in each.answers] == ["fail", "pass"] and each.outcome == "fail"
    assert worst(["pass", "malformed", "not compared"]) == "malformed" and worst([]) == "not compared"


def test_pass_of_a_bench_counts_by_digest(run: Path) -> None:
    log, name = run / "bench" / "build" / "icarus.log", "outlier_decoder-e2m1"
    digest = golden.load(run / "bench" / name).manifest["self_sha256"]
    log.write_text(f"PASS 47 rows of {name}, sha256 {digest}\n")
    log.with_suffix(".code").write_text("0\n")
    assert only(regression(run, "none"), name).outcome == "pass"

    log.with_suffix(".code").write_text("1\n")
    assert only(regression(run, "none"), name).outcome == "fail"

    log.with_suffix(".code").write_text("0\n")
    log.write_text(f"PASS 47 rows of {name}, sha256 {'0' * 64}\n")
    each = only(regression(run, "none"), name)
    assert each.outcome == "not compared" and "rerun the testbench" in each.answers[0].reason


def test_log_belongs_to_set_by_digest(run: Path) -> None:
    digest = golden.load(run / "olive_mac-wrap").manifest["self_sha256"]
    (run / "olive_mac-wrap" / "answers.npz").unlink()
    (run / "nightly").mkdir()
    (run / "nightly" / "x.log").write_text(f"PASS 56 rows of olive_mac-wrap, sha256 {digest}\n")
    each = only(regression(run, "none"), "olive_mac-wrap")
    assert [answer.path for answer in each.answers] == ["nightly/x.log"] and each.outcome == "pass"


def test_logs_of_missing_sets_count(run: Path) -> None:
    for folder in ("saved", "bench", "olive_mac-wrap"):
        shutil.rmtree(run / folder)
    (run / "x.log").write_text("nothing of a bench\n")
    assert regression(run, "none").code == 0
    (run / "x.log").write_text(f"PASS 1 rows of a-b, sha256 {'0' * 64}\n")
    assert regression(run, "none").code == 2
    (run / "x.log").write_text("FAIL 3 of 4 rows differ\n")
    outcome = regression(run, "none")
    assert outcome.code == 1 and outcome.logs[0].outcome == "fail"


def test_a_log_of_other_vectors_still_fails(run: Path) -> None:
    log = run / "bench" / "build" / "icarus.log"
    log.write_text(log.read_text().replace("want d2", "want d3"))
    (answer,) = only(regression(run, "none"), "outlier_decoder-e2m1").answers
    assert (
        answer.outcome == "fail"
        and answer.difference is None
        and "differ from those of outlier_decoder-e2m1" in answer.reason
    )
    assert all(f"make -C {run / 'bench'} " in command.run and "VEC" not in command.run for command in answer.commands)
    assert answer.commands


def test_campaign_with_missing_shard_does_not_pass(run: Path) -> None:
    """A missing shard does not pass; a device is explained once for all shards."""
    for folder in ("saved", "bench", "olive_mac-wrap"):
        shutil.rmtree(run / folder)
    campaign(run / "c")
    place = run / "c" / "outlier_decoder-e2m1" / "random-00000000"
    shutil.copytree(place, place.with_name("random-00009999"))
    for each in place.parent.iterdir():
        wrong = outputs(each)
        wrong["out.base_int"] &= 7
        np.savez(each / "answers.npz", **wrong)
    outcome = regression(run, "none")
    shards = [each for each in outcome.sets if each.kind == "shard"]

    assert [each.campaign for each in shards] == ["c", "c"] and outcome.code == 1
    explained = [each.answers[0].difference for each in shards]
    assert [bool(each and each.diagnosis) for each in explained] == [True, False]
    shutil.rmtree(place.parent)
    outcome = regression(run, "none")
    assert outcome.code == 2 and outcome.campaigns[0].missing and outcome.counts["pass"] == 1


def test_invalid_arguments_are_rejected(run: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="did you mean 'fast'"):
        regression(run, "fats")
    with pytest.raises(Refused, match="no such folder"):
        regression(tmp_path / "none")
