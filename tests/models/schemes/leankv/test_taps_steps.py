"""Requests that taps show: what is taken back is not among them, and those of a real model are whole."""

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from refemu import models, units
from refemu.arith import fp16
from refemu.models.schemes.leankv.pool import Pool
from refemu.units.unit import Cases
from tests.models.schemes.leankv.test_taps import TEXT, TINY, Call, cases, watched
from tests.models.schemes.tap_cases import evaluated, require_ports


def test_requests_that_are_taken_back_are_not_shown() -> None:
    calls: list[Call] = []
    session: Any = models.session(models.prepare(models.load("tiny"), TINY), lambda *call: calls.append(call))
    session.append(TEXT[:8])
    mark = session.caches.mark()
    session.append(TEXT[8:10])
    session.caches.rewind(8, mark)
    session.append(TEXT[8:9])
    _, case = cases(calls, "layer_step")[-1]

    assert case.source["largest"] == 1 and (case.inputs["op"] == 2).sum() == 1
    require_ports([(case.source["layer"], "layer_step", case)])


@pytest.mark.model
@pytest.mark.slow
def test_requests_of_smollm2_are_whole(smollm2: Any, tmp_path: Path) -> None:
    """64 features, 3 query heads, pages of the model: a set of layer_step has its outputs."""
    calls: list[Call] = []

    def tap(layer: int, unit: str, case: Cases) -> None:
        if layer == 7:
            calls.append((layer, unit, case))

    tap.units = ("layer_step", "kv_compressor")  # type: ignore[attr-defined]
    attended: list[np.ndarray] = []
    session: Any = models.session(models.prepare(models.load("smollm2-135m"), "leankv:window=16"), tap)
    keep = watched(Pool, "attend", lambda pool, found, plan, layer, *rest: layer == 7 and attended.append(found))
    with mock.patch.object(Pool, "attend", keep):
        session.append(list(range(100, 148)))
        session.append([5, 6, 7, 8])
    _, case = cases(calls, "layer_step")[-1]
    config, found = units.find("layer_step").config(case.config), evaluated("layer_step", case)
    layouts = session.caches.pools.pools[0].layouts

    assert (config["kv_heads"], config["heads"], config["head_size"]) == (3, 3, 64)
    assert config["page_bytes"] == layouts.high.size
    for step, out in enumerate(attended):
        assert (fp16.values(found.out[0, step - 4]) == out[0].ravel()).all()
    assert len(attended) == 4 and found.tokens_written == 3 * 4 + int((case.inputs["section"] > 0).sum())
