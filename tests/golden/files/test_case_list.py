"""The text table of a set: its arrays, row by row."""

import json
from pathlib import Path

import numpy as np

from refemu import golden
from refemu.golden.files import case_list


def test_paper_and_edge_cases_list_every_word(made: Path) -> None:
    golden_set = golden.load(made / "meter-w4")
    lines = case_list.render(golden_set.manifest, golden_set.arrays).decode().splitlines()

    assert lines == (made / "meter-w4" / "cases.txt").read_text().splitlines()
    assert lines[0].startswith("meter-w4: paper and edge cases")
    rows = [line.split() for line in lines if line.startswith("  ")]
    paper = [entry for entry in golden_set.manifest["cases"] if entry["kind"] == "paper"]
    count = min(paper[0]["cases"] * paper[0]["rows"], case_list.ROWS)
    assert len([words for words in rows if "=" in words[1]]) == count and rows[-1][0::2][:2] == ["...", "more"]
    for row, words in enumerate(rows[:count], paper[0]["first"]):
        fields = dict(word.split("=") for word in words[1:] if "=" in word)
        assert fields["add"] == f"{golden_set.arrays['in.add'][row]:x}"
        wide = ",".join(f"{word:x}" for word in golden_set.arrays["out.wide"][row].tolist()[: case_list.WORDS])
        assert fields["wide"].startswith(wide)
        assert fields["total"] == f"{golden_set.arrays['st.total'][row]:x}"


def test_masked_lanes_are_dashes(made: Path) -> None:
    golden_set = golden.load(made / "blender-wrap")
    text = (made / "blender-wrap" / "cases.txt").read_text()

    care = golden_set.arrays["out.ratio.care"].reshape(-1)
    edge = [entry for entry in golden_set.manifest["cases"] if entry["kind"] in ("paper", "edge")]
    rows = [row for entry in edge for row in range(entry["first"], entry["first"] + entry["cases"])]
    assert text.count("ratio=-") == int(np.count_nonzero(care[rows] == 0)) > 0
    assert "|  OVERFLOW" in text and "(D-fake-1)" in text


def test_wide_port_has_a_digest_of_all_lanes() -> None:
    entry = {"name": "in.x", "role": "stimulus"}
    case = {"first": 0, "cases": 1, "rows": 1, "kind": "edge", "why": "wide", "id": "edge/wide"}
    manifest = json.loads(json.dumps({"name": "n", "cases": [case], "arrays": [entry], "flags": {}}))
    arrays = {"in.x": np.arange(20, dtype=np.uint8)[None], "flags": np.zeros(1, np.uint32)}
    text = case_list.render(manifest, arrays).decode()

    assert "x=0,1,2,..20 lanes " in text
    arrays["in.x"][0, 19] ^= 1
    assert case_list.render(manifest, arrays).decode() != text
