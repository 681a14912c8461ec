"""Manifests name units, never modules, so moving a file changes no vector."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refemu import golden
from refemu.golden.make import model_cases, regenerate

pytestmark = pytest.mark.committed

VECTORS = Path(__file__).parents[2] / "vectors"
MODULE = re.compile(r"\b(?:refemu|tests)\.(?!vectors/)\w|\w:\w+$")  #: "refemu.units.orizuru", "a.module:function"


def strings(value: Any) -> Iterator[str]:
    """Every string of a manifest, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def module_paths(manifest: Any) -> list[str]:
    return [text for text in strings(manifest) if MODULE.search(text)]


def makers(manifest: Any) -> set[str]:
    return {entry["function"] for entry in manifest["generator"].values()}


def test_committed_manifests_have_no_module_path() -> None:
    for path in VECTORS.rglob("manifest.json"):
        manifest = json.loads(path.read_text())
        assert module_paths(manifest) == [], path
        assert makers(manifest) <= {f"{manifest['unit']}.cases", model_cases.FUNCTION}, path


def test_new_set_names_unit_and_run(tmp_path: Path) -> None:
    seen = set()
    for made in golden.generate(tmp_path, units=["ovp_decoder"], kinds=["paper", "random", "model"], scheme="olive-4"):
        manifest = golden.load(made.path).manifest
        seen |= makers(manifest)
        assert module_paths(manifest) == []

    assert seen == {"ovp_decoder.cases", "model.run"}


def test_saved_set_names_its_library() -> None:
    assert regenerate.SAVED == "testing.hold"


@pytest.mark.parametrize(
    "text", ["refemu.units.orizuru:cases", "refemu.models:run", "tests.golden.fakes:meter_cases", "refemu.units.kllm"]
)
def test_module_path_is_detected_anywhere(text: str) -> None:
    assert module_paths({"generator": {"edge": {"function": text, "seed": 0}}}) == [text]
    assert module_paths({"cases": [{"why": text}]}) == [text]
    assert module_paths({text: 1}) == [text]
