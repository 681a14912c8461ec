"""Shards of a campaign: reproducible, complete or absent, identified by their contents."""

import json
from pathlib import Path

import pytest

from refemu.golden.campaign import shards
from refemu.golden.campaign.shards import LIST, ModelShard, RandomShard
from refemu.golden.files import sets
from refemu.golden.make.model_cases import Source

SHARD = RandomShard("concat", "a4", 5, 2)
MODEL = ModelShard("tiny", Source("tiny", "0", "kllm-a4:act_bits=3", {}, "1", 32, 3, (1, 2, 3)), (0,), ("concat",))


def test_shard_names_are_file_names() -> None:
    assert SHARD.name == "concat-a4/random-00000005"
    assert MODEL.name == "kllm-a4_act_bits_3/tokens-00000032"


def test_shard_is_complete_and_reproducible(tmp_path: Path) -> None:
    assert not shards.finished(SHARD, tmp_path)
    assert shards.make(SHARD, str(tmp_path / "a")) == SHARD.name
    shards.make(SHARD, str(tmp_path / "b"))
    read = [{path.name: path.read_bytes() for path in (tmp_path / side / SHARD.name).iterdir()} for side in "ab"]

    assert read[0] == read[1] and set(read[0]) == {sets.MANIFEST, sets.VECTORS}
    assert shards.finished(SHARD, tmp_path / "a")


def test_another_seed_is_another_shard(tmp_path: Path) -> None:
    """The folder's name alone does not show it."""
    shards.make(SHARD, str(tmp_path))
    manifest = json.loads((tmp_path / SHARD.name / sets.MANIFEST).read_bytes())

    assert SHARD.holds(manifest)
    assert not RandomShard("concat", "a4", 5, 3).holds(manifest)
    assert not RandomShard("concat", "a4", 6, 2).holds(manifest)


@pytest.mark.parametrize("name", [sets.MANIFEST, sets.VECTORS])
def test_incomplete_shard_is_not_finished(tmp_path: Path, name: str) -> None:
    shards.make(SHARD, str(tmp_path))
    path = tmp_path / SHARD.name / name
    path.write_bytes(path.read_bytes()[:-1])

    assert not shards.finished(SHARD, tmp_path)
    path.unlink()
    assert not shards.finished(SHARD, tmp_path)
    shards.make(SHARD, str(tmp_path))  # over the remains
    assert shards.finished(SHARD, tmp_path)


def listed(folder: Path, text: str) -> object:
    (folder / MODEL.name).mkdir(parents=True, exist_ok=True)
    (folder / MODEL.name / LIST).write_text(text)
    return MODEL.listed(folder)


def test_list_has_digests_of_all_sets(tmp_path: Path) -> None:
    name = "concat-a4-layer-000"

    assert MODEL.listed(tmp_path) is None
    assert listed(tmp_path, json.dumps({"sets": {name: "d1"}})) == {f"{MODEL.name}/{name}": "d1"}
    assert listed(tmp_path, json.dumps({"sets": {"../elsewhere": "d1"}})) is None
    assert listed(tmp_path, json.dumps({"sets": {name: "d1"}})[:-1]) is None
    assert not shards.finished(MODEL, tmp_path)


def test_list_is_written_after_the_sets(tmp_path: Path) -> None:
    """A shard of several sets lists their digests; that of random cases has no list."""
    files = dict(SHARD.render())[SHARD.name]
    place = f"{MODEL.name}/concat-a4-layer-000"
    shards.keep(MODEL, [(place, files)], tmp_path)
    digest = json.loads(files[sets.MANIFEST])["self_sha256"]

    assert MODEL.listed(tmp_path) == {place: digest}
    shards.keep(SHARD, SHARD.render(), tmp_path)
    assert not (tmp_path / SHARD.name / LIST).exists()
