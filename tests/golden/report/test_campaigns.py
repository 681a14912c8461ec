"""Campaigns: every shard of the request exists or is named."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from refemu.golden.report import campaigns
from tests.golden.report.conftest import campaign


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    campaign(tmp_path / "c")
    return tmp_path / "c"


def test_complete_campaign_has_no_reason(folder: Path) -> None:
    known = campaigns.read(folder, "c")
    assert known.whole and known.shards == 1 and known.missing == ()


def test_missing_shard_is_named(folder: Path) -> None:
    shutil.rmtree(folder / "outlier_decoder-e2m1")
    known = campaigns.read(folder, "c")
    assert known.missing == ("outlier_decoder-e2m1/random-00000000",)
    assert known.reason == "1 of 1 shards are missing"


def test_half_a_shard_is_missing(folder: Path) -> None:
    (folder / "outlier_decoder-e2m1" / "random-00000000" / "vectors.npz").unlink()
    assert not campaigns.read(folder, "c").whole


@pytest.mark.parametrize(
    "change",
    [{"schema": "refemu.campaign/9"}, {"refemu_version": "0.0.9"}, {"request": {"rows": 5}}, {"request": None}],
)
def test_unreadable_request_is_incomplete(folder: Path, change: dict[str, Any]) -> None:
    stated = json.loads((folder / "campaign.json").read_text())
    (folder / "campaign.json").write_text(json.dumps({**stated, **change}))
    known = campaigns.read(folder, "c")
    assert not known.whole and known.reason.startswith("c: ")


def test_model_shards_are_listed_by_scheme_and_window(tmp_path: Path, folder: Path) -> None:
    stated = json.loads((folder / "campaign.json").read_text())
    request = {"tokens": 40, "window": 16, "schemes": {"kllm-a4:n=2": {}}}
    (folder / "campaign.json").write_text(json.dumps({**stated, "request": request}))
    place = folder / "kllm-a4_n_2"
    for first in (0, 16):
        (place / f"tokens-{first:08d}").mkdir(parents=True)
        (place / f"tokens-{first:08d}" / "sets.json").write_text('{"sets": {}}')
    known = campaigns.read(folder, "c")
    assert (known.shards, known.missing) == (3, ("kllm-a4_n_2/tokens-00000032",))
    (place / "tokens-00000016" / "sets.json").write_text('{"sets": {"a-b-layer-000": ""}}')
    assert len(campaigns.read(folder, "c").missing) == 2
