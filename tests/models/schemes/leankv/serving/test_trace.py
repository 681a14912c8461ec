"""Requests of files and of draws."""

import dataclasses
import math
from pathlib import Path

import pytest

from refemu.arith.checks import Refused
from refemu.models.schemes.leankv import serving
from tests.oracles.leankv import serving as oracle


def test_file_is_read_in_order_of_arrival(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"arrival": 2, "prompt": 5, "generate": 6}\n\n{"generate": 3, "arrival": 0.5, "prompt": 1}\n')

    assert serving.read(path) == [serving.Arrival(0.5, 1, 3), serving.Arrival(2.0, 5, 6)]


BAD = {
    "text": ("prompt", "line 1: must be a JSON object"),
    "key": ('{"arrival": 1, "prompt": 5}', "with arrival, prompt, generate, got"),
    "list": ("[1, 2, 3]", "must be a JSON object"),
    "time": ('{"arrival": -1, "prompt": 5, "generate": 5}', "arrival must be seconds from 0 to 1e9, got -1"),
    "infinite": ('{"arrival": NaN, "prompt": 5, "generate": 5}', "arrival must be seconds"),
    "tokens": ('{"arrival": 1, "prompt": 0, "generate": 5}', "prompt must be in"),
    "part": ('{"arrival": 1, "prompt": 5, "generate": 1.5}', "generate"),
    "deep": ("[" * 100_000, "must be a JSON object"),
    "nothing": ("\n", "must have a request, got none"),
}


@pytest.mark.parametrize(("line", "message"), BAD.values(), ids=list(BAD))
def test_damaged_file_is_rejected(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(line)
    with pytest.raises((Refused, TypeError), match=message):
        serving.read(path)


@pytest.mark.parametrize("values", [(math.nan, 5, 5), (-1.0, 5, 5), (0.0, 0, 5), (0.0, 5, -1)])
def test_invalid_request_is_rejected(values: tuple[float, int, int]) -> None:
    with pytest.raises(Refused, match="request: "):
        serving.Arrival(*values)


def test_drawn_requests_are_poisson_with_exponential_prompts() -> None:
    """D-leankv-71: 20,000 gaps and lengths; means and standard deviations within four standard errors."""
    trace = serving.drawn(20_000, 4.0, seed=5, prompt=100, generate=7)
    times = [request.arrival for request in trace]
    gaps = [4 * (after - before) for before, after in zip([0.0, *times], times, strict=False)]
    lengths = [(request.prompt - 0.5) / 99 for request in trace]
    for values in (gaps, lengths):
        mean = math.fsum(values) / len(values)
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
        above = len([value for value in values if value > 2]) / len(values)
        assert abs(mean - 1) < 4 / math.sqrt(20_000)
        assert abs(deviation - 1) < 4 * math.sqrt(2 / 20_000)
        assert abs(above - math.exp(-2)) < 4 * math.sqrt(0.117 / 20_000)
    assert {request.generate for request in trace} == {7}
    assert trace == serving.drawn(20_000, 4.0, seed=5, prompt=100, generate=7) != serving.drawn(20_000, 4.0, seed=6)


def test_drawn_requests_are_those_of_the_oracle() -> None:
    """D-leankv-71: every bit."""
    found = serving.drawn(500, 3.0, seed=8, prompt=161, generate=9)
    assert [dataclasses.astuple(each) for each in found] == oracle.drawn(500, 3.0, 8, 161, 9)


def test_impossible_rate_is_rejected() -> None:
    for rate in (0, -1.0, math.nan, math.inf):
        with pytest.raises(Refused, match="rate must be"):
            serving.drawn(1, rate)
