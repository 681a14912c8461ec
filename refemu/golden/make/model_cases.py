"""Cases of kind "model": values at the ports of the units while a model reads a text.

A set has a selection of them: model_cases_kept.py. A campaign has all: `crossed`.
"""

import contextlib
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.golden.files import manifest
from refemu.golden.make.model_case_choice import chosen_layers, largest, windows
from refemu.units.unit import Cases

FUNCTION = "model.run"  #: what makes these cases, as a manifest says
_TOKENS = 1 << 31  # largest size of a vocabulary
REMEMBERED = 8  #: runs in memory: a folder of sets needs one for each scheme
DEFAULT_MODEL, DEFAULT_SCHEME, DEFAULT_TOKENS = "tiny", "olive-4", 64

Progress = Callable[[str, int, int], None]  #: progress(what, done, total)
Tapped = Mapping[tuple[str, str], Sequence[Cases]]  #: (unit, configuration) -> cases

_runs: dict[tuple[Any, ...], Tapped] = {}  # one run serves all sets of a folder under a scheme
_loaded: dict[tuple[str, str], Any] = {}  # by name and sha256, since a weight file is not found by its model's name
_prepared: dict[tuple[str, str, str], Any] = {}  # the last model that `crossed` prepared
_crossed: dict[tuple[Any, ...], "dict[int, Tapped]"] = {}  # its last run, which serves every block


class Absent(Refused):
    """The weights of a set are missing, or differ."""


@dataclass(frozen=True)
class Source:
    """A run of a model, complete enough to repeat it without the text."""

    model: str
    weights_sha256: str
    scheme: str  #: text for `schemes.parse`
    scheme_config: Mapping[str, Any]  #: every parameter
    text_sha256: str  #: digest of the text, or of token ids given instead, as little-endian int64
    first_token: int
    tokens: int
    token_ids: tuple[int, ...]


def source(
    model: str | None,
    scheme: str | None,
    text: str | None,
    tokens: int | None,
    whole: bool = False,
    token_ids: Sequence[int] | None = None,
) -> Source:
    """The run to make: names with defaults filled in, and the first tokens of `text` (the shipped one if None).

    whole: allow more tokens than the context has, for a run in windows. token_ids: used unchanged instead of a text.
    """
    from refemu.models import schemes
    from refemu.models import text as texts
    from refemu.models.encoder.config import EncoderConfig

    if tokens is not None and tokens < 1:
        raise Refused(f"generate: tokens must be at least 1, got {tokens}")
    loaded = load(model or DEFAULT_MODEL)
    config = schemes.parse(scheme or DEFAULT_SCHEME)
    read = texts.default() if text is None and token_ids is None else text or ""
    count = tokens or DEFAULT_TOKENS
    count = count if whole else min(count, loaded.config.context)
    encodes = isinstance(loaded.config, EncoderConfig)  # an encoder adds its special tokens
    if token_ids is not None:
        chosen = _listed(loaded, token_ids)[:count]
    else:
        chosen = loaded.tokenizer.sentence(read, count) if encodes else loaded.tokenizer.encode(read)[:count]
    ids = tuple(int(token) for token in chosen)
    if not ids:
        raise Refused("generate: the text must have a token, got none")
    return Source(
        loaded.name,
        loaded.sha256,
        schemes.text(config),
        manifest.plain(schemes.parameters(config)),
        manifest.sha256(read.encode() if token_ids is None else np.array(token_ids, "<i8").tobytes()),
        0,
        len(ids),
        ids,
    )


def _listed(loaded: Any, token_ids: Sequence[int]) -> list[int]:
    """Token ids, all in the vocabulary. Refused: any other, with its index."""
    for index, token in enumerate(token_ids):
        if not 0 <= token < loaded.config.vocab:
            raise Refused(f"generate: token_ids must be in [0, {loaded.config.vocab}), got {token} at index {index}")
    return list(token_ids)


def load(model: str) -> Any:
    """The model found by `models.load`, registered for its runs by name and sha256."""
    from refemu import models

    loaded = models.load(model)
    _loaded[loaded.name, loaded.sha256] = loaded
    return loaded


def described(source_: Source) -> dict[str, Any]:
    """The manifest's `source`."""
    return dict(manifest.plain(source_))


def recorded(entry: Mapping[str, Any]) -> Source:
    """The Source in a manifest, with fields derived again from the scheme and the tokens.

    Raises Absent if this refemu cannot repeat the run: the weights are missing, or came from a user's file. Refused: an
    invalid source.
    """
    from refemu.models import schemes
    from refemu.models.fetch import catalog

    names = [field.name for field in fields(Source)]
    if sorted(entry) != sorted(names):
        got = ", ".join(sorted(entry)) or "nothing"
        raise Refused(f"source of model cases: must hold {', '.join(names)}, got {got}")
    for name in ("model", "weights_sha256", "scheme", "text_sha256"):
        if not isinstance(entry[name], str):
            raise Refused(f"source of model cases: {name} must be a text, got {entry[name]!r:.60}")
    ids = entry["token_ids"]
    if not isinstance(ids, list) or not all(type(token) is int and 0 <= token < _TOKENS for token in ids):
        raise Refused(f"source of model cases: token_ids must be integers in [0, {_TOKENS}), got {ids!r:.60}")
    run = Source(**{**entry, "token_ids": tuple(ids)})
    if run.model not in catalog.MODELS:
        raise Absent(f"{run.model} is not a model of `refemu models list`: the set came from a weight file")
    try:
        loaded = load(run.model)
    except Refused as error:
        raise Absent(str(error)) from error
    if loaded.sha256 != run.weights_sha256:
        raise Absent(f"weights of {run.model} have sha256 {loaded.sha256}, those of the set have {run.weights_sha256}")
    config = manifest.plain(schemes.parameters(schemes.parse(run.scheme)))
    return replace(run, scheme_config=config, tokens=len(run.token_ids))


def forget() -> None:
    """Drop the runs in memory: a check must not trust earlier computations."""
    for remembered in (_runs, _loaded, _prepared, _crossed):
        remembered.clear()


def tapped(source_: Source, progress: Progress | None = None, units_: Iterable[str] | None = None) -> Tapped:
    """The selected cases of a run, for every unit and configuration that the scheme taps; the last runs are cached.

    units_: the wanted units, by default all. The model runs only if the scheme taps one of them.
    """
    wanted = tapped_units(source_, units_)
    key = source_.model, source_.weights_sha256, source_.scheme, source_.token_ids, wanted
    if key not in _runs:
        kept = _run(source_, wanted, progress).kept() if wanted else {}
        while len(_runs) >= REMEMBERED:
            del _runs[next(iter(_runs))]
        _runs[key] = kept
    return _runs[key]


def crossed(source_: Source, units_: Iterable[str] | None = None, last: int | None = None) -> Mapping[int, Tapped]:
    """All cases of a decoder's run, block by block; the last run and the last prepared model are cached.

    units_: the wanted units, by default all that the scheme taps. last: the last wanted block.
    """
    wanted = tapped_units(source_, units_)
    key = source_.model, source_.weights_sha256, source_.scheme, source_.token_ids, wanted, last
    if key not in _crossed:
        _crossed.clear()
        _crossed[key] = _run(source_, wanted, None, last, _ready(source_)).all()
    return _crossed[key]


def tapped_units(source_: Source, units_: Iterable[str] | None = None) -> frozenset[str]:
    """The units that the scheme of a run taps, among `units_` or all."""
    from refemu.models import schemes  # imported here, since comparisons should not load the runtime

    known = schemes.taps(schemes.parse(source_.scheme))
    return frozenset(known if units_ is None else set(known).intersection(units_))


def _ready(source_: Source) -> Any:
    """The prepared model of `crossed`, cached since a campaign runs it many times."""
    from refemu import models

    key = source_.model, source_.weights_sha256, source_.scheme
    if key not in _prepared:
        _prepared.clear()
        _prepared[key] = models.prepare(_loaded.get(key[:2], source_.model), source_.scheme)
    return _prepared[key]


def _run(
    source_: Source, wanted: frozenset[str], progress: Progress | None, last: int | None = None, prepared: Any = None
) -> "_Collector":
    from refemu import models
    from refemu.models.encoder.config import EncoderConfig

    model = _loaded.get((source_.model, source_.weights_sha256), source_.model)
    prepared = prepared or models.prepare(model, source_.scheme, progress=progress)
    phases = prepared.config.two_phases
    collector = _Collector(prepared, wanted, None if phases else last)
    ids = list(source_.token_ids)
    if isinstance(prepared.model, EncoderConfig):
        from refemu.models.encoder import runtime

        runtime.encode(collector.watched, [ids], collector.tap)
        return collector
    session = models.session(collector.watched, collector.tap)
    prompt = len(ids) - len(ids) // 2 if phases else len(ids)
    with contextlib.suppress(_Enough):
        session.append(ids[:prompt])
        if prompt < len(ids):  # the second half token by token
            session.append(ids[prompt:])
    return collector


class _Enough(Exception):
    """The run is past the last wanted block."""


class _Tap:
    """A tap of some units that records their cases."""

    def __init__(self, units_: frozenset[str]) -> None:
        self.units = units_
        self.cases: list[tuple[int, str, Cases]] = []

    def __call__(self, layer: int, unit: str, case: Cases) -> None:
        self.cases.append((layer, unit, case))


class _Collector:
    """Records the peak of the linear inputs of each block, and the cases of the taps.

    `watched` is the prepared model with a probe of the input of each linear layer.
    """

    def __init__(self, prepared: Any, wanted: frozenset[str], last: int | None = None) -> None:
        """last: the run ends after this block."""
        self._linear, self._last = prepared.linear, last
        self.watched = copy.copy(prepared)
        self.watched.linear = self._look
        self._peaks: dict[int, float] = {}
        self.tap = _Tap(wanted)

    def _look(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Any) -> Any:
        """The scheme's linear layer, after a record of its input."""
        if self._last is not None and not 0 <= layer <= self._last:  # a later block, or the output matrix
            raise _Enough
        self._peaks[layer] = max(self._peaks.get(layer, 0.0), float(np.abs(x).max()))
        return self._linear(layer, names, x, watch)

    def kept(self) -> Tapped:
        """The cases of the chosen blocks, in the order of their operations."""
        chosen = chosen_layers(self._peaks)
        blocks: dict[tuple[str, str], list[Cases]] = {}
        for layer, unit, case in largest([entry for entry in self.tap.cases if entry[0] in chosen]):
            for window in windows(unit, case):
                why = f"{window.source['tensor']} (block {layer}: {chosen[layer]}): {window.why}"
                blocks.setdefault((unit, case.config), []).append(replace(window, why=why))
        return blocks

    def all(self) -> dict[int, Tapped]:
        """Every case of every block, in the order of their operations."""
        blocks: dict[int, dict[tuple[str, str], list[Cases]]] = {}
        for layer, unit, case in self.tap.cases:
            block = replace(case, why=f"{case.source['tensor']} (block {layer}): {case.why}")
            blocks.setdefault(layer, {}).setdefault((unit, case.config), []).append(block)
        return dict(blocks)
