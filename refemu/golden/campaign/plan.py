"""Campaigns: millions of cases in shards, made by several processes or a Dask cluster, resumable at any time.

The bytes of a shard depend on the request alone, not on the number of workers, their order or an interruption. Finished
shards are not repeated; `refemu check` checks them like any set.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from refemu import units
from refemu.arith import selftest
from refemu.arith.checks import Refused, require_int
from refemu.golden.campaign import folder as campaign_folder
from refemu.golden.campaign import pool
from refemu.golden.campaign.shards import ModelShard, RandomShard, Shard, finished, slug
from refemu.golden.files import manifest as manifests
from refemu.golden.files import sets
from refemu.golden.make import model_cases
from refemu.golden.make.model_cases import Progress
from refemu.units.unit import AnyUnit

ROWS = 1 << 16  #: rows of a shard of random cases, about; it has as many seeds as needed
BYTES = 1 << 25  #: bytes of such a shard with wide ports, about
WINDOW = 64  #: tokens of a shard of a model's cases, unless the request says otherwise
ATTEMPTS = 2  #: at a shard
SHARDS = 1 << 20  #: most shards of a campaign of random cases: their list takes 100 MB, and each is a folder


class Request(Protocol):
    """Everything that a campaign's bytes depend on."""

    @property
    def units(self) -> Mapping[str, int]:
        """Name -> version."""

    @property
    def named(self) -> Sequence[str]:
        """Units requested by name, which must have cases in the end."""

    def stated(self) -> Mapping[str, Any]:
        """The request in the campaign's folder."""

    def shards(self) -> Sequence[Shard]:
        """Every shard, in the order of names."""


@dataclass(frozen=True)
class RandomRequest:
    """Random cases of some units."""

    rows: int  #: of every unit and configuration, at least
    seed: int  #: the first
    units: Mapping[str, int]  #: name -> version

    @property
    def named(self) -> tuple[str, ...]:
        """None: `request` checks this before anything is made."""
        return ()

    def stated(self) -> Mapping[str, Any]:
        """The request in the campaign's folder."""
        return asdict(self)

    def shards(self) -> list[RandomShard]:
        """Every shard, in the order of names. Refused: more than SHARDS."""
        every = (
            shard
            for unit, configs in map(units.configurations, self.units)
            for config in configs
            for shard in self._shards(unit.key, config)
        )
        first = sorted(itertools.islice(every, SHARDS + 1))
        if len(first) > SHARDS:
            raise Refused(
                f"campaign: {self.rows} rows are more than {SHARDS} shards; ask for fewer rows or units, or "
                "for several campaigns, each with its own folder and first seed"
            )
        return first

    def _shards(self, name: str, config: str) -> Iterator[RandomShard]:
        each = rows_per_seed(name, config)
        if each == 0:
            return
        last, step = self.seed + -(-self.rows // each), max(1, min(ROWS, BYTES // _row_bytes(name, config)) // each)
        for first in range(self.seed, last, step):
            yield RandomShard(name, config, first, min(step, last - first))


@dataclass(frozen=True)
class ModelRequest:
    """Request for values at the ports of units while a model reads a text, window by window, from an empty cache."""

    weights: str  #: what `models.load` takes
    runs: tuple[model_cases.Source, ...] = field(repr=False)  #: all tokens, one run per scheme
    window: int
    layers: tuple[int, ...]
    units: Mapping[str, int]  #: name -> version
    named: tuple[str, ...] = field(default=(), compare=False)  #: units that must have cases in the end

    def stated(self) -> Mapping[str, Any]:
        """The request in the campaign's folder, without the tokens, which follow from model and text."""
        first = self.runs[0]
        return {
            "model": first.model,
            "weights_sha256": first.weights_sha256,
            "text_sha256": first.text_sha256,
            "schemes": {run.scheme: run.scheme_config for run in self.runs},
            "tokens": first.tokens,
            "window": self.window,
            "layers": self.layers,
            "units": self.units,
        }

    def shards(self) -> list[ModelShard]:
        """Every shard, scheme after scheme: a worker prepares the model when the scheme changes."""
        return [
            ModelShard(self.weights, self._cut(run, first), self.layers, tuple(self.units))
            for run in self.runs
            for first in range(0, run.tokens, self.window)
        ]

    def _cut(self, run: model_cases.Source, first: int) -> model_cases.Source:
        ids = run.token_ids[first : first + self.window]
        return replace(run, first_token=first, tokens=len(ids), token_ids=ids)


@dataclass(frozen=True)
class Outcome:
    """Summary of a finished campaign."""

    shards: int
    made: int  #: shards made by this run; the others existed
    rows: int
    bytes: int
    sha256: str  #: digest of the names and digests of all sets


def request(rows: int, *, units_: Sequence[str | AnyUnit] | None = None, seed: int = 0) -> RandomRequest:
    """A campaign of at least `rows` random rows for every configuration of `units_`, by default all with random cases.

    Refused: units of `units_` without random cases.
    """
    require_int(rows, 1, 1 << 48, "campaign", "rows")
    require_int(seed, 0, 1 << 40, "campaign", "seed")
    asked = [spec if isinstance(spec, str) else units.find(spec).key for spec in units_ or ()]
    names = sorted(set(units.names() if units_ is None else asked))
    without = [
        spec
        for spec, (unit, configs) in zip(asked, map(units.configurations, asked), strict=True)
        if not any(rows_per_seed(unit.key, config) for config in configs)
    ]
    if without:
        raise Refused(f"campaign: units: each must have random cases, got none for {', '.join(sorted(set(without)))}")
    return RandomRequest(rows, seed, {name: units.choose(name)[0].version for name in names})


def model_request(
    tokens: int,
    *,
    model: str | None = None,
    schemes: Sequence[str] | None = None,
    text: str | None = None,
    layers: Sequence[int] | None = None,
    window: int = WINDOW,
    units_: Sequence[str] | None = None,
    token_ids: Sequence[int] | None = None,
) -> ModelRequest:
    """A campaign of values at units while `model` reads the first `tokens` tokens of `text`, `window` at a time.

    schemes: by default olive-4. text: by default the shipped one. layers: blocks, by default all. units_: by default
    all that the schemes tap. token_ids: instead of a text. Refused: an encoder, missing blocks, too short a text, a
    window beyond the context, a unit that no scheme taps.
    """
    from refemu.models.encoder.config import EncoderConfig

    require_int(tokens, 1, 1 << 48, "campaign", "tokens")
    weights = model or model_cases.DEFAULT_MODEL
    loaded = model_cases.load(weights)
    if isinstance(loaded.config, EncoderConfig):
        raise Refused(f"campaign: {loaded.name} is an encoder; a campaign runs decoders")
    require_int(window, 1, loaded.config.context, "campaign", "window")
    names_ = schemes or [model_cases.DEFAULT_SCHEME]
    runs = tuple(_whole_run(weights, scheme, text, tokens, token_ids) for scheme in names_)
    if len({slug(run.scheme) for run in runs}) < len(runs):
        raise Refused(f"campaign: a scheme occurs twice: {', '.join(run.scheme for run in runs)}")
    chosen = range(loaded.config.blocks) if layers is None else sorted(set(layers))
    for layer in chosen:
        require_int(layer, 0, loaded.config.blocks - 1, f"campaign: {loaded.name}", "layer")
    names = _tapped(runs, units_)
    versions = {name: units.find(name).version for name in names}
    return ModelRequest(weights, runs, window, tuple(chosen), versions, tuple(names) if units_ is not None else ())


def _tapped(runs: Sequence[model_cases.Source], units_: Sequence[str] | None) -> list[str]:
    """The units of a request, each tapped by a scheme of it."""
    from refemu.models import schemes

    known = sorted({unit for run in runs for unit in schemes.taps(schemes.parse(run.scheme))})
    names = known if units_ is None else sorted({units.find(name).key for name in units_})
    if strange := [name for name in names if name not in known]:
        raise Refused(
            f"campaign: {', '.join(run.scheme for run in runs)} taps no {', no '.join(strange)}; "
            f"it taps {', '.join(known) or 'no unit'}"
        )
    if not names:
        raise Refused(f"campaign: {', '.join(run.scheme for run in runs)} taps no unit")
    return names


def _whole_run(
    weights: str, scheme: str, text: str | None, tokens: int, token_ids: Sequence[int] | None
) -> model_cases.Source:
    run = model_cases.source(weights, scheme, text, tokens, whole=True, token_ids=token_ids)
    if run.tokens < tokens:
        raise Refused(f"campaign: tokens must be at most {run.tokens}, the text's, got {tokens}")
    return run


def rows_per_seed(name: str, config: str) -> int:
    """Rows of the random cases of one seed; 0 if there are none."""
    unit = units.find(name)
    held = 1 + (unit.timing == "event")
    blocks = (
        next(iter(cases.inputs.values())).shape[:held] for cases in unit.stimuli(unit.config(config), "random", 0)
    )
    rows = 0
    for shape in blocks:
        rows += shape[0] * (shape[1] if held == 2 else 1)
    return rows


def _row_bytes(name: str, config: str) -> int:
    size = 4  # the flags
    for port in units.find(name).ports(units.find(name).config(config)).all:
        size += port.dtype.itemsize * port.count
    return size


def run(
    wanted: Request,
    out: str | Path,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
    notice: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Make the missing shards, `workers` at a time, or on the Dask cluster at `scheduler`.

    progress: called as progress(what, done, total). notice: called when a shard failed and is tried once more.
    Refused: a folder with anything but this campaign, or in which a campaign runs now; a shard that fails twice; a
    scheduler that does not answer; units named in the request without cases in the end. Finished shards are saved.
    """
    selftest.check()
    require_int(workers, 1, 1024, "campaign", "workers")
    if workers > 1 or scheduler is not None:
        _require_installed(wanted)
    shards, folder = wanted.shards(), Path(out)
    with campaign_folder.held(folder, wanted.stated()):
        missing = [shard for shard in shards if not finished(shard, folder)]
        counter = _Counter(len(shards), len(shards) - len(missing), progress, notice)
        if scheduler is not None:
            from refemu.golden.campaign import cluster

            cluster.run(missing, folder, scheduler, counter.finish, counter.fail)
        elif workers == 1 or len(missing) < 2:
            pool.alone(missing, folder, counter.finish, counter.fail)
        else:
            pool.pool(missing, folder, min(workers, len(missing)), counter.finish, counter.fail)
        return _outcome(shards, folder, len(missing), wanted.named)


def _require_installed(wanted: Request) -> None:
    """Reject units that other processes do not know."""
    for name in wanted.units:
        if name in units.called():
            raise Refused(
                f"campaign: unit {name} is registered in this process only, not in workers; run it with one "
                "worker, or install the distribution that brings it"
            )


class _Counter:
    """Finished shards, and shards that failed once."""

    def __init__(self, total: int, done: int, progress: Progress | None, notice: Callable[[str], None]) -> None:
        self.total, self.done, self._progress, self._notice = total, done, progress, notice
        self._failures: dict[str, int] = {}  # by the shard's name
        self._tell()

    def finish(self, shard: Shard) -> None:
        """One more."""
        self.done += 1
        self._tell()

    def fail(self, shard: Shard, error: BaseException | str) -> None:
        """Report the first failure of a shard; the second ends the campaign."""
        self._failures[shard.name] = self._failures.get(shard.name, 0) + 1
        reason = str(error) or type(error).__name__
        if self._failures[shard.name] == ATTEMPTS:
            raise Refused(
                f"campaign: shard {shard.name} failed twice: {reason}; {self.done} of {self.total} shards "
                "are finished; fix the cause, then run the same command to resume"
            )
        self._notice(f"shard {shard.name} failed: {reason}; it is tried once more")

    def _tell(self) -> None:
        if self._progress:
            self._progress("shards", self.done, self.total)


def _outcome(shards: Sequence[Shard], folder: Path, count: int, named: Sequence[str]) -> Outcome:
    digest, rows, size, without = hashlib.sha256(), 0, 0, set(named)
    for shard in shards:
        for name in shard.listed(folder) or ():
            place = folder / name
            manifest = manifests.parse((place / sets.MANIFEST).read_bytes(), str(place))
            digest.update(f"{name} {manifest['self_sha256']}\n".encode())
            rows += manifest["rows"]
            without.discard(manifest["unit"])
            size += (place / sets.MANIFEST).stat().st_size + (place / sets.VECTORS).stat().st_size
    if without:
        raise Refused(
            f"campaign: units: each must have cases, got none for {', '.join(sorted(without))}: no ready "
            "configuration fits the model's values at their ports; the other sets are saved"
        )
    if not rows:
        raise Refused("campaign: none of the units has cases of this kind")
    return Outcome(len(shards), count, rows, size, digest.hexdigest())
