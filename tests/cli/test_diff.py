"""`refemu diff` names the case, the port and the lane, with both values in hex, bits and decoded."""

import json
from pathlib import Path

import numpy as np
import pytest

import refemu.golden
from refemu.cli import main


@pytest.fixture
def golden(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["generate", "-o", str(tmp_path), "--unit", "ovp_decoder", "--kinds", "paper,exhaustive"]) == 0
    capsys.readouterr()
    return tmp_path / "ovp_decoder-int4"


def answers(golden: Path) -> dict[str, np.ndarray]:
    with np.load(golden / "vectors.npz", allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files if name.startswith("out.")}


def test_equal_answers_exit_with_0(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(golden), str(golden)]) == 0
    assert "rows equal" in capsys.readouterr().out


def test_flipped_bit_is_located(golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = answers(golden)
    arrays["out.base_int"][7, 1] ^= 2
    np.savez(tmp_path / "dut.npz", **arrays)

    assert main(["diff", str(golden), str(tmp_path / "dut.npz"), "--explain"]) == 1
    text = capsys.readouterr().out
    assert "row 7 of case 7" in text
    assert "out.base_int, lane 1" in text
    assert "1 of " in text
    assert main(["diff", str(golden), str(tmp_path / "dut.npz"), "--json"]) == 1
    first = json.loads(capsys.readouterr().out)["first"]
    assert (first["row"], first["port"], first["lane"]) == (7, "base_int", 1)
    assert int(first["got"]["hex"], 16) ^ int(first["want"]["hex"], 16) == 2


def test_unreadable_and_empty_answers_exit_with_2(
    golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 nonsense")
    np.savez(tmp_path / "empty.npz", other=np.zeros(3))

    for name in ("broken.npz", "empty.npz", "missing.npz"):
        assert main(["diff", str(golden), str(tmp_path / name)]) == 2
        assert name in capsys.readouterr().err


def test_explanations_in_json(golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other tools read these fields."""
    arrays = answers(golden)
    arrays["out.exponent"][:, 1] = arrays["out.exponent"][:, 1] + 1 & 15
    np.savez(tmp_path / "dut.npz", **arrays)

    assert main(["diff", str(golden), str(tmp_path / "dut.npz"), "--explain", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    rows = document["rows"]
    assert (document["equal"], document["wrong_rows"]) == (False, rows)
    assert document["where"]["ports"] == {"exponent": rows} and document["where"]["lanes"] == {"exponent": {"1": rows}}
    assert set(document["where"]) == {"ports", "lanes", "bits", "kinds", "flags"}
    assert document["searched"]["hypotheses"] > 10 and document["searched"]["rows"] <= rows
    (part,) = document["explanations"]
    assert part == {
        "kind": "structure",
        "id": "constant",
        "detail": "right if out.exponent: 1 is added",
        "parameters": {"port": "exponent", "added": 1},
        "rows_explained": rows,
        "rows_distinguishing": rows,
        "refused_rows": 0,
        "lanes": [1],
        "equivalent": [],
        "with": [],
        "title": "",
        "ports": [],
        "agreeing": [],
    }


def test_wide_input_shows_only_the_differing_lane(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refemu.golden.generate(tmp_path, units=["bfp_aligner:paper"], kinds=["paper"])
    arrays = {name: array for name, array in answers(tmp_path / "bfp_aligner-paper").items() if "care" not in name}
    arrays["out.mantissa"][0, 6] ^= 1
    np.savez(tmp_path / "dut.npz", **arrays)

    assert main(["diff", str(tmp_path / "bfp_aligner-paper"), str(tmp_path / "dut.npz")]) == 1
    assert "in  x            lane 6 of 8: 0x" in capsys.readouterr().out
    assert main(["diff", str(tmp_path / "bfp_aligner-paper"), str(tmp_path / "dut.npz"), "--full"]) == 1
    assert "lane 6 of 8" not in capsys.readouterr().out
