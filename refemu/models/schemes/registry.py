"""Schemes by name, and mixes of them.

`parse("olive-4:low=80,types=int")` is configuration `olive-4` with two fields changed, and
`parse("olive-4+leankv-k8v4")` has the linear layers of one and the attention of another; `text` is the inverse.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from refemu import plugins
from refemu.arith.checks import Refused, RefusedType
from refemu.formats import config_text
from refemu.models.backend import Backend
from refemu.models.model import Model
from refemu.models.schemes import scheme_text
from refemu.models.schemes.kind import SchemeKind, kind_of, named_kind
from refemu.models.schemes.linear_scheme import LinearScheme
from refemu.models.schemes.mix import grammar, rules
from refemu.models.schemes.mix.config import Mix, Part
from refemu.models.schemes.scheme import CalibrationTokens, Prepared, Progress, Scheme
from refemu.models.schemes.scheme_text import PAPERS, PLUGGED, SCHEMES

if TYPE_CHECKING:
    from refemu.models.machine.report import Accelerator, Costs

__all__ = ["PAPERS", "SCHEMES"]

T = TypeVar("T")


def parse(spec: str) -> Scheme:
    """The configuration of `name:field=value,...`, or the mix of several of them joined by `+`.

    refemu.formats.config_text has the grammar of values, refemu.models.schemes.mix.grammar that of mixes.
    Raises Refused for an unknown scheme or field, with the nearest match, for invalid values, and for parts that do not
    form a mix.
    """
    pieces = grammar.split(spec, SCHEMES)
    if len(pieces) > 1:
        parts = [_part(piece) for piece in pieces]
        rules.check(parts, [piece.place for piece in pieces])
        return Mix(tuple(parts))
    if pieces[0].layers is not None and pieces[0].scheme.partition(":")[0] in SCHEMES:
        raise Refused(f"scheme {spec[:60]!r}: @ selects layers of a part of a mix, not of a single scheme")
    return scheme_text.parse(spec)


def _part(piece: grammar.Piece) -> Part:
    """A part of a mix from its text."""
    try:
        layers = None if piece.layers is None else grammar.read_layers(piece.layers, "layers")
        return Part(scheme_text.parse(piece.scheme), layers)
    except Refused as error:
        raise Refused(f"mix: {piece.place}: {error}") from None


def compose(parts: Sequence[tuple[Scheme, Sequence[int] | None]]) -> Mix:
    """The mix of schemes and the blocks of each, None for those without @; the last one is the attention."""
    return Mix(tuple(Part(scheme, None if blocks is None else tuple(blocks)) for scheme, blocks in parts))


def find(scheme: "str | Scheme") -> Scheme:
    """The configuration of a text, or the configuration itself.

    Raises Refused for an invalid text, RefusedType for another type.
    """
    return parse(scheme) if isinstance(scheme, str) else scheme_text.required(scheme)


def register(kind: "SchemeKind[Any] | Scheme | type[Scheme]", name: str = "") -> SchemeKind[Any]:
    """Add schemes in this process, for `parse` and for `--scheme` of a program that calls this.

    kind: a LinearScheme or its class, with the name to give it, or a SchemeKind, whose `ready` has the names.
    A distribution adds schemes by entry points `refemu.schemes`. Raises Refused for a name of refemu's own,
    RefusedType for anything else.
    """
    config = kind() if isinstance(kind, type) and issubclass(kind, LinearScheme) and name else kind
    if isinstance(config, LinearScheme) and name:
        kind = named_kind(config, name)
    if not isinstance(kind, SchemeKind) or not kind.ready:
        hint = "a LinearScheme and a name, or a SchemeKind with ready configurations"
        raise RefusedType(f"scheme: must be {hint}, got {kind!r:.60}")
    for known in kind.ready:
        PLUGGED.register(kind, known)
    return kind


def plugged() -> tuple[str, ...]:
    """Names of plug-in and registered schemes."""
    return PLUGGED.names()


def broken() -> tuple[plugins.Broken, ...]:
    """Load every scheme of every installed distribution, and list those that fail."""
    return PLUGGED.working()[1]


def prepare(
    config: Scheme, model: Model, backend: Backend, calibration: CalibrationTokens | None, progress: Progress
) -> Prepared:
    """Prepare a model under a configuration; `models.prepare` also takes names, and checks the model."""
    return cast(Prepared, kind_of(config).prepare(config, model, backend, calibration, progress))


def ignores_calibration(config: Scheme) -> bool:
    """Whether a scheme is known to calibrate on nothing."""
    halves = config.calibrated_halves
    return halves is not None and not halves


def taps(config: Scheme) -> tuple[str, ...]:
    """The units whose ports a run under `config` can show, in alphabetical order; empty if the scheme has no taps."""
    shown = kind_of(config).taps
    return shown(config, None) if shown else ()


def machine(config: Scheme) -> "Accelerator":
    """The function that runs a block on the scheme's accelerator; raises Refused for a scheme without one."""
    return _there(config, kind_of(config).accelerator, "accelerator")


def costs(config: Scheme) -> "Costs":
    """The function for the cost of a call on the scheme's accelerator; raises Refused for a scheme without one."""
    for number, part in enumerate(config.parts if isinstance(config, Mix) else (), start=1):
        why = kind_of(part.scheme).part_cost
        if isinstance(why, str):
            raise Refused(f"cost: each part must have its own cost, got part {number}, {part.text!r}: {why}")
    return _there(config, kind_of(config).cost, "cost")


def serving() -> Any:
    """The package of the serving simulator."""
    import refemu.models.schemes.leankv.serving

    return refemu.models.schemes.leankv.serving


def _there(config: Scheme, function: T | None, field: str) -> T:
    """A function of the accelerator. field: of `SchemeKind`. Raises Refused for a scheme without it, or a mix."""
    if function is not None:
        return function
    if isinstance(config, Mix):
        alone = ", ".join(part.text for part in config.parts)
        raise Refused(f"machine: must be one scheme, got the mix {config.text}; use one of its parts: {alone}")
    ready = ", ".join(known for known, scheme in SCHEMES.items() if getattr(kind_of(scheme), field))
    raise Refused(f"machine: scheme {name(config)} has no accelerator; schemes with one: {ready}")


def name(scheme: Scheme) -> str:
    """The registered name with the fewest changed fields, the first of equal ones; the text of a mix."""
    return text(scheme) if isinstance(scheme, Mix) else scheme_text.name(scheme)


def text(scheme: Scheme) -> str:
    """The shortest text that `parse` turns into `scheme`.

    Raises Refused for a value that `parse` would read as the start of a part, such as a path with a plus.
    """
    written = scheme.text if isinstance(scheme, Mix) else scheme_text.text(scheme)
    if len(grammar.split(written, SCHEMES)) != (len(scheme.parts) if isinstance(scheme, Mix) else 1):
        raise Refused(f"scheme: a value must not have a + before a scheme's name, got {written[:200]!r}")
    return written


def describe() -> list[dict[str, Any]]:
    """One row per registered scheme: name, paper, its halves in a mix, and its parameters as `parse` reads them."""
    rows = []
    scheme: Any
    for known, scheme in (*SCHEMES.items(), *PLUGGED.working()[0].items()):
        fields = [field.name for field in dataclasses.fields(scheme)]
        values = " ".join(f"{field}={config_text.write(getattr(scheme, field))}" for field in fields)
        rows.append(
            {
                "name": known,
                "paper": scheme.paper,
                "halves": " ".join(scheme.halves),
                "parameters": values,
            }
        )
    return rows


def parameters(scheme: Scheme) -> dict[str, Any]:
    """Every field of a configuration by name, as in a manifest; tuples become lists. For a mix, by part."""
    if isinstance(scheme, Mix):
        return {"parts": [_parameters_of(part) for part in scheme.parts]}
    fields = dataclasses.asdict(scheme)  # type: ignore[call-overload]
    return {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}


def _parameters_of(part: Part) -> dict[str, Any]:
    layers = None if part.layers is None else list(part.layers)
    return {"scheme": scheme_text.name(part.scheme), "layers": layers, "parameters": parameters(part.scheme)}
