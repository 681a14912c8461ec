"""Campaigns of models: equal bytes for any number of workers and after any interruption."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from refemu import golden
from refemu.arith.checks import Refused
from refemu.cli import main
from refemu.golden.campaign import plan
from tests.golden.campaign.campaigns import MODEL, files
from tests.models.schemes.leankv.plain import CHANGES


@pytest.mark.long
def test_sets_of_a_model_campaign_pass_check(read: tuple[Path, plan.Outcome]) -> None:
    folder, outcome = read
    assert outcome.shards == outcome.made == 3
    assert sorted(path.name for path in (folder / "olive-4").iterdir()) == [
        "tokens-00000000",
        "tokens-00000016",
        "tokens-00000032",
    ]
    assert golden.check(folder).equal
    for first, tokens in ((0, 16), (16, 16), (32, 8)):
        one = golden.load(folder / f"olive-4/tokens-{first:08d}/ovp_encoder-flint4-layer-002")
        assert (one.manifest["source"]["first_token"], one.manifest["source"]["tokens"]) == (first, tokens)
        assert one.manifest["generator"] == {"model": {"function": "model.run", "seed": 0, "layer": 2}}
        assert {entry["source"]["layer"] for entry in one.manifest["cases"]} == {2}
        pairs = {entry["source"]["pairs_per_token"] for entry in one.manifest["cases"]}
        assert one.rows % tokens == 0 and one.rows // tokens >= max(pairs), "every row of every token"


@pytest.mark.long
def test_number_of_workers_changes_no_bytes(read: tuple[Path, plan.Outcome], tmp_path: Path) -> None:
    assert plan.run(plan.model_request(40, **MODEL), tmp_path, workers=2) == read[1]
    assert files(tmp_path) == files(read[0])


def test_blocks_and_units_are_independent_of_others(read: tuple[Path, plan.Outcome], tmp_path: Path) -> None:
    """The run may end early, after the last wanted block."""
    plan.run(plan.model_request(40, **MODEL, layers=[0, 1], units_=["ovp_encoder", "mmaovp"]), tmp_path)
    some = {name: data for name, data in files(tmp_path).items() if "layer" in name}
    wanted = {
        name: data
        for name, data in files(read[0]).items()
        if ("/ovp_encoder-" in name or "/mmaovp-" in name) and "layer-002" not in name
    }
    assert some == wanted and some


def test_interrupted_model_campaign_is_resumed(read: tuple[Path, plan.Outcome], tmp_path: Path) -> None:
    wanted = plan.model_request(40, **MODEL)
    shutil.copytree(read[0], tmp_path, dirs_exist_ok=True)
    (tmp_path / "olive-4/tokens-00000000/sets.json").unlink()  # killed before the shard was complete
    place = tmp_path / "olive-4/tokens-00000016/mmaovp-f4_f4-layer-000/vectors.npz"
    place.write_bytes(place.read_bytes()[:-1])
    half = tmp_path / "olive-4/tokens-00000032/.mmaovp-f4_f4-layer-000.new-abc"
    half.mkdir()
    assert plan.run(wanted, tmp_path).made == 2
    assert files(tmp_path) == files(read[0])


def test_set_of_another_run_is_replaced(read: tuple[Path, plan.Outcome], tmp_path: Path) -> None:
    wanted = plan.model_request(40, **MODEL)
    shutil.copytree(read[0], tmp_path, dirs_exist_ok=True)
    one, other = (tmp_path / f"olive-4/tokens-000000{first}/mmaovp-f4_f4-layer-000" for first in ("00", "16"))
    for name in ("manifest.json", "vectors.npz"):
        (one / name).write_bytes((other / name).read_bytes())
    assert plan.run(wanted, tmp_path).made == 1
    assert files(tmp_path) == files(read[0])


def test_window_has_prompt_and_generated_tokens(tmp_path: Path) -> None:
    """In schemes of two phases half a window is the prompt; blocks after the last wanted one run too."""
    scheme = f"leankv:{CHANGES},align=4+4,page_bytes=112,window=4"
    plan.run(plan.model_request(12, schemes=[scheme], window=8, layers=[1]), tmp_path)
    assert golden.check(tmp_path).equal
    assert any("/generation_compressor-" in name for name in files(tmp_path)), "the second half came too"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"model": "tiny-encoder"}, "tiny-encoder is an encoder; a campaign runs decoders"),
        ({"layers": [3]}, r"layer must be in \[0, 2\], got 3"),
        ({"window": 1 << 20}, "window must be in"),
        ({"units_": ["orizuru"]}, "olive-4 taps no orizuru; it taps flint_decoder, mmaovp"),
        ({"units_": ["orizuru", "mmaovp", "fdgf"]}, "olive-4 taps no fdgf, no orizuru; it taps"),
        ({"schemes": ["fp16"]}, "fp16 taps no unit"),
        ({"schemes": ["olive-4", "olive-4"]}, "a scheme occurs twice"),
        ({"text": "short"}, "tokens must be at most 5, the text's, got 40"),
    ],
)
def test_invalid_model_requests_are_rejected(words: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        plan.model_request(40, **words)


def test_named_units_without_cases_are_rejected(tmp_path: Path) -> None:
    """kllm-a3 taps index_matmul with the widths of w4a3 and the lengths of the model, and not olive_mac."""
    scheme = "kllm-a3:calibration_tokens=16"
    some = {"schemes": [scheme], "layers": [0]}
    with pytest.raises(Refused, match="olive_mac"):
        plan.run(plan.model_request(4, **some, units_=["orizuru", "olive_mac"]), tmp_path / "named")
    plan.run(plan.model_request(4, **some), tmp_path / "all")

    names = {path.parent.name.partition("-layer")[0] for path in (tmp_path / "all").rglob("manifest.json")}
    assert {"index_matmul-k64-a_bits3", "index_matmul-k96-a_bits3"} <= names and any(
        name.startswith("orizuru") for name in names
    )


def test_command_runs_a_model_campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["generate", "-o", str(tmp_path), "--layer", "0-1", "--tokens", "9", "--win", "8", "--unit", "mmaovp"]
    assert main(words) == 0
    assert "2 shards" in capsys.readouterr().out
    assert main([*words, "--cases", "3"]) == 2
    assert "this campaign has only model cases: leave out --cases" in capsys.readouterr().err
    assert main(["generate", "-o", str(tmp_path), "--layer", "0"]) == 2
    assert "needs --tokens N" in capsys.readouterr().err
    assert main(["generate", "-o", str(tmp_path), "--layer", "3-1", "--tokens", "9"]) == 2
    assert "--layer takes blocks such as 0-3,7 or all, got '3-1'" in capsys.readouterr().err
    assert main([*words[:4], "all", *words[5:]]) == 2
    assert "has another campaign: its layers are [0, 1], asked are [0, 1, 2]" in capsys.readouterr().err
