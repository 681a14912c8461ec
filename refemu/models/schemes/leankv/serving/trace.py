"""Requests of a simulation: from a file, or drawn with exponential gaps and lengths."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refemu.arith import prng
from refemu.arith.checks import Refused, require_int
from refemu.arith.reader_errors import reading
from refemu.units.declaration import decides

FIELDS = ("arrival", "prompt", "generate")
MOST = 1 << 24  #: largest number of tokens


@dataclass(frozen=True)
class Arrival:
    """One request."""

    arrival: float  #: seconds
    prompt: int  #: tokens
    generate: int  #: tokens to generate

    def __post_init__(self) -> None:
        _require("request", self.arrival, self.prompt, self.generate)


def read(path: str | Path) -> list[Arrival]:
    """Read requests, a JSON object a line: `{"arrival": seconds, "prompt": tokens, "generate": tokens}`.

    Parameters
    ----------
    path : str or Path
        File in UTF-8; empty lines are skipped.

    Returns
    -------
    list of Arrival
        In the order of arrival; equal times in the order of the file.

    Raises
    ------
    Refused
        A line is not such an object, a value is out of range, or there is no request.
    """
    with reading(f"trace {path}", "a file of requests"):
        lines = Path(path).read_text("utf-8").splitlines()
    arrivals = [_arrival(f"trace {path}: line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]
    if not arrivals:
        raise Refused(f"trace {path}: must have a request, got none; write one JSON object a line")
    return sorted(arrivals, key=lambda request: request.arrival)


def _arrival(place: str, line: str) -> Arrival:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or sorted(value) != sorted(FIELDS):
        raise Refused(f"{place}: must be a JSON object with {', '.join(FIELDS)}, got {line[:60]!r}")
    _require(place, **value)
    return Arrival(**value)


def _require(thing: str, arrival: float, prompt: int, generate: int) -> None:
    """Reject values that are out of range, in an error that begins with `thing`."""
    if isinstance(arrival, bool) or not isinstance(arrival, int | float) or not 0 <= arrival < 1e9:
        raise Refused(f"{thing}: arrival must be seconds from 0 to 1e9, got {arrival!r}")
    require_int(prompt, 1, MOST, thing, "prompt")
    require_int(generate, 1, MOST, thing, "generate")


@decides("D-leankv-71")
def drawn(requests: int, rate: float, seed: int = 0, prompt: int = 161, generate: int = 4096) -> list[Arrival]:
    """Draw requests that arrive at random.

    Gaps are exponential, so arrivals are a Poisson process; prompts are exponential too, of at least one token; every
    request generates the same number of tokens, as in [leankv §7.4].

    Parameters
    ----------
    requests : int
        Number of requests, at least 1.
    rate : float
        Requests a second, above 0.
    seed : int
        Seed of the draws, 0 to 2**64 - 1.
    prompt : int
        Mean tokens of a prompt; 161 is that of ShareGPT.
    generate : int
        Tokens that each request generates.

    Returns
    -------
    list of Arrival
        In the order of arrival.

    Raises
    ------
    Refused
        A value is out of range.
    """
    require_int(requests, 1, 1 << 20, "trace", "requests")
    require_int(prompt, 1, MOST, "trace", "prompt")
    require_int(generate, 1, MOST, "trace", "generate")
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 1e-9 <= rate <= 1e9:
        raise Refused(f"trace: rate must be 1e-9 to 1e9 requests a second, got {rate!r}")
    gaps, lengths = _exponential(_uniform("gap", seed)), _exponential(_uniform("prompt", seed))
    time, arrivals = 0.0, list[Arrival]()
    for _ in range(requests):
        time += next(gaps) / rate
        arrivals.append(Arrival(time, min(1 + int(next(lengths) * (prompt - 1)), MOST), generate))
    return arrivals


def _uniform(label: str, seed: int) -> Iterator[int]:
    """Words of 53 bits."""
    words, start = prng.stream(f"serving/{label}", seed), 0
    while True:
        yield from (int(word) >> 11 for word in prng.words(words, start, 1024))
        start += 1024


def _exponential(words: Any) -> Iterator[float]:
    """Exponential numbers of mean 1, exactly: von Neumann's comparisons of uniform numbers, without a logarithm.

    A falling run of uniform numbers of odd length ends a number: its first one plus the runs of even length before.
    """
    whole = 0
    while True:
        first = last = next(words)
        length = 1
        while (word := next(words)) < last:
            last, length = word, length + 1
        if length % 2:
            yield whole + first / (1 << 53)
            whole = 0
        else:
            whole += 1
