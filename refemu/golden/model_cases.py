"""Cases of kind "model": what crosses the ports of the units while a model reads a text, and which part of it is kept.

Kept are three blocks (the first, the last, and the one whose linear inputs peak highest, where a massive activation
sits) and of each tensor two tokens (token 0, whose activations are unlike all others', and the one with the most rows
that carry a flag, which for pairs are those with an outlier), every row of them. What lists no tokens is kept whole.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden import manifest as manifests
from refemu.golden.rows import evaluate
from refemu.units.unit import Cases

FUNCTION = "refemu.models:run"  #: what makes these cases, as a manifest says
DEFAULT_MODEL, DEFAULT_SCHEME, DEFAULT_TOKENS = "tiny", "olive-4", 64

Progress = Callable[[str, int, int], None]  #: progress(what, done, total)
Tapped = Mapping[tuple[str, str], Sequence[Cases]]  #: (unit, configuration) -> cases

_runs: dict[tuple[Any, ...], Tapped] = {}  # one run serves all sets of a folder


class Absent(Refused):
    """The weights behind a set are not here, or are others."""


@dataclass(frozen=True)
class Source:
    """A run of a model, complete enough to repeat it without the text."""

    model: str
    weights_sha256: str
    scheme: str  #: as `schemes.parse` takes it
    scheme_config: Mapping[str, Any]  #: every parameter
    text_sha256: str
    first_token: int
    tokens: int
    token_ids: tuple[int, ...]


def source(model: str | None, scheme: str | None, text: str | None, tokens: int | None) -> Source:
    """What to run: names with their defaults filled in, and the first tokens of `text` (the shipped one if None)."""
    from refemu import models
    from refemu.models import schemes
    from refemu.models import text as texts

    loaded = models.load(model or DEFAULT_MODEL)
    config = schemes.parse(scheme or DEFAULT_SCHEME)
    read = texts.default() if text is None else text
    count = min(tokens or DEFAULT_TOKENS, loaded.config.context)
    ids = tuple(int(token) for token in loaded.tokenizer.encode(read)[:count])
    if not ids:
        raise Refused("generate: the text holds no token")
    return Source(
        loaded.name,
        loaded.sha256,
        schemes.text(config),
        manifests.plain(schemes.parameters(config)),
        manifests.sha256(read.encode()),
        0,
        len(ids),
        ids,
    )


def described(source_: Source) -> dict[str, Any]:
    """The manifest's `source`."""
    return dict(manifests.plain(source_))


def recorded(entry: Mapping[str, Any]) -> Source:
    """The Source in a manifest. Raises Absent where this refemu cannot repeat that run."""
    from refemu import models

    found = Source(**{**entry, "token_ids": tuple(entry["token_ids"])})
    try:
        loaded = models.load(found.model)
    except Refused as error:
        raise Absent(str(error)) from error
    if loaded.sha256 != found.weights_sha256:
        raise Absent(
            f"weights of {found.model} have sha256 {loaded.sha256}, the set was made from {found.weights_sha256}"
        )
    return found


def forget() -> None:
    """Drop the run that `tapped` remembers: a check does not trust what was computed for something else."""
    _runs.clear()


def tapped(source_: Source, progress: Progress | None = None) -> Tapped:
    """The kept cases of a run, for every unit and configuration that the scheme taps. The last run is remembered."""
    from refemu import models  # here: who only compares vectors should not load the runtime

    key = source_.model, source_.weights_sha256, source_.scheme, source_.token_ids
    if key not in _runs:
        collector = _Collector(models.prepare(source_.model, source_.scheme, progress=progress))
        models.session(collector, collector.tap).append(list(source_.token_ids))
        _runs.clear()
        _runs[key] = collector.kept()
    return _runs[key]


class _Collector:
    """A prepared model that also keeps the peak of the linear inputs of each block, and what the taps deliver."""

    def __init__(self, prepared: Any) -> None:
        self._prepared = prepared
        self._peaks: dict[int, float] = {}
        self._cases: list[tuple[int, str, Cases]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._prepared, name)

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Any) -> Any:
        """As the scheme computes it, after a look at the input."""
        self._peaks[layer] = max(self._peaks.get(layer, 0.0), float(np.abs(x).max()))
        return self._prepared.linear(layer, names, x, watch)

    def tap(self, layer: int, unit: str, case: Cases) -> None:
        self._cases.append((layer, unit, case))

    def kept(self) -> Tapped:
        """The cases of the chosen blocks, in the order in which they crossed the ports."""
        chosen = chosen_layers(self._peaks)
        found: dict[tuple[str, str], list[Cases]] = {}
        for layer, unit, case in self._cases:
            for one in _tokens(unit, case) if layer in chosen else ():
                why = f"{one.source['tensor']} (block {layer}: {chosen[layer]}): {one.why}"
                found.setdefault((unit, case.config), []).append(replace(one, why=why))
        return found


def chosen_layers(peaks: Mapping[int, float]) -> dict[int, str]:
    """Block -> why it is kept; peaks: largest magnitude of its linear inputs. The first of equal peaks counts."""
    blocks = sorted(layer for layer in peaks if layer >= 0)
    highest = max(blocks, key=lambda layer: peaks[layer])
    reasons = ((blocks[0], "the first"), (blocks[-1], "the last"), (highest, "its linear inputs peak highest"))
    return {layer: ", and ".join(why for at, why in reasons if at == layer) for layer, _ in sorted(reasons)}


def _tokens(unit: str, case: Cases) -> Iterator[Cases]:
    """The kept tokens of a case that lists tokens; any other case as it is."""
    if "pairs_per_token" not in case.source:
        yield case
        return
    tokens, size = case.source["tokens"], case.source["pairs_per_token"]
    most = int(np.argmax(np.count_nonzero(_flagged(unit, case).reshape(tokens, size), axis=1)))
    for token in sorted({0, most}):
        reasons = ("the first",) * (token == 0) + ("it has the most flagged rows",) * (token == most)
        inputs = {name: array[token * size : (token + 1) * size] for name, array in case.inputs.items()}
        position = case.source["first_token"] + token
        why = f"{case.why}, all rows of token {position} ({', and '.join(reasons)})"
        yield replace(case, inputs=inputs, why=why, source={**case.source, "first_token": position, "tokens": 1})


def _flagged(unit: str, case: Cases) -> np.ndarray:
    found = units.find(unit)
    return evaluate(found, found.configs[case.config], case).flags != 0
