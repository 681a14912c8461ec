"""Results on disk: found by what they depend on, whole or not at all."""

from pathlib import Path

import pytest

from refemu.studies import results
from refemu.studies.results import ResultStore

DEPENDS = {"what": "losses", "scheme": "fp16", "ids": "ab"}


def test_result_is_found_by_its_dependencies(tmp_path: Path) -> None:
    store = ResultStore("olive", tmp_path)
    store.put(DEPENDS, {"nll": 0.1, "scored": 3})

    assert ResultStore("olive", tmp_path).get(DEPENDS) == {"nll": 0.1, "scored": 3}
    assert store.get({**DEPENDS, "ids": "ac"}) is None
    assert ResultStore("kllm", tmp_path).get(DEPENDS) is None


def test_other_sources_lose_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ResultStore("olive", tmp_path)
    store.put(DEPENDS, 1)
    monkeypatch.setattr(results, "sources", lambda *papers: "others")

    assert store.get(DEPENDS) is None


def test_sources_are_the_papers_and_shared_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "arith/a.py",
        "models/schemes/olive/a.py",
        "models/schemes/kllm/a.py",
        "studies/output/a.py",
        "studies/a.py",
        "units/olive/mac/cases.py",
        "units/olive/mac/variants.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1")
    monkeypatch.setattr(results, "PACKAGE", tmp_path)
    monkeypatch.setattr(results, "SCHEMES", tmp_path / "models" / "schemes")

    def digests() -> tuple[str, str]:
        results.sources.cache_clear()
        return results.sources("olive"), results.sources("kllm")

    try:
        before = digests()
        (tmp_path / "models/schemes/kllm/a.py").write_text("x = 2")
        after = digests()
        assert (before[0] == after[0], before[1] == after[1]) == (True, False)
        for name in ("studies/output/a.py", "units/olive/mac/cases.py", "units/olive/mac/variants.py"):
            (tmp_path / name).write_text("x = 2")
        assert digests() == after
        for name in ("arith/a.py", "studies/a.py"):
            before = digests()
            (tmp_path / name).write_text("x = 2")
            assert not set(digests()) & set(before)
    finally:
        results.sources.cache_clear()


def test_result_depends_on_folders_of_its_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mix is saved by the studies of any paper, so a change of OliVe's sources measures `olive-4+...` again."""
    mixed = {**DEPENDS, "scheme": "olive-8@0+olive-4+harmonia-kv8"}
    places = {"fp16": {"fp16"}, mixed["scheme"]: {"mix", "olive", "harmonia"}, "kllm-a4": {"kllm"}, "": set()}
    assert {scheme: set(results.folders(scheme)) for scheme in places} == places

    store = ResultStore("leankv", tmp_path)
    store.put(mixed, 1)
    store.put(DEPENDS, 2)
    before = results.sources
    monkeypatch.setattr(results, "sources", lambda *papers: before(*papers) + "changed" * ("olive" in papers))

    assert store.get(mixed) is None
    assert store.get(DEPENDS) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"value": 2}', b'{"depends": {}, "value": 2}'])
def test_a_damaged_file_is_measured_again(content: bytes, tmp_path: Path) -> None:
    store = ResultStore("olive", tmp_path)
    store.put(DEPENDS, 1)
    store.path(DEPENDS).write_bytes(content)
    assert store.get(DEPENDS) is None
    store.put(DEPENDS, 1)

    assert store.get(DEPENDS) == 1


def test_unwritable_folder_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told: list[str] = []
    store = ResultStore("olive", tmp_path / "file", told.append)
    store.put(DEPENDS, 1)
    store.put(DEPENDS, 2)

    assert store.get(DEPENDS) is None
    assert len(told) == 1 and "are not saved" in told[0]


@pytest.mark.parametrize("value", [float("nan"), {"nll": float("inf")}])
def test_result_that_json_lacks_is_measured_again(value: object, tmp_path: Path) -> None:
    store = ResultStore("olive", tmp_path)
    store.put({"model": "tiny"}, value)

    assert store.get({"model": "tiny"}) is None
