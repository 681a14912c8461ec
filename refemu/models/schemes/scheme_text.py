"""Single schemes by name: text to configuration and back. `registry` adds mixes."""

import dataclasses
import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_type_hints

from refemu import plugins
from refemu.arith.checks import Refused, RefusedType, lookup
from refemu.arith.reader_errors import reading
from refemu.formats import config_text
from refemu.models.schemes import scheme_file
from refemu.models.schemes.kind import SchemeKind
from refemu.models.schemes.scheme import Scheme

#: folder of every scheme, whose `config.READY` contains it
PAPERS = {
    "fp16": "fp16",
    "olive-4": "olive",
    "olive-8": "olive",
    "olive-study": "olive",
    "kllm-a4": "kllm",
    "kllm-a4-s": "kllm",
    "kllm-a3": "kllm",
    "kllm-a3-s": "kllm",
    "harmonia-kv8": "harmonia",
    "harmonia-kv4": "harmonia",
    "harmonia-kv4-naive": "harmonia",
    "leankv": "leankv",
    "leankv-k8v8": "leankv",
    "leankv-k8v4": "leankv",
    "leankv-k8v2": "leankv",
    "leankv-k4v4": "leankv",
    "leankv-k4v2": "leankv",
    "leankv-k4v1": "leankv",
    "leankv-k4v8": "leankv",
    "leankv-k2v4": "leankv",
    "leankv-k16v16": "leankv",
}


def required(scheme: object) -> Scheme:
    """The configuration itself; raises RefusedType for anything else."""
    if isinstance(scheme, Scheme):
        return scheme
    got = f"the class {scheme.__name__}" if isinstance(scheme, type) else type(scheme).__name__
    raise RefusedType(f"scheme: must be a name or a configuration, got {got}")


def _validated(kind: object, known: str, origin: plugins.Origin) -> Scheme:
    if not isinstance(kind, SchemeKind):
        how = "name SCHEME = SchemeKind(config=..., prepare=...)"
        raise RefusedType(f"scheme {known}: must be a SchemeKind, got {kind!r:.60}; {how}")
    if known not in kind.ready:
        there = ", ".join(kind.ready) or "none"
        raise Refused(f"scheme {known}: ready must have a configuration of that name, got {there}; add it")
    config: Scheme = kind.ready[known]
    return config


PLUGGED = plugins.Registry("scheme", lambda: PAPERS, _validated)  #: schemes of plug-ins, and registered ones


def _plugged(name: str) -> Scheme:
    """The configuration of a plug-in. Refused: an unknown name, with the ways to name a scheme of one's own."""
    try:
        return PLUGGED.find(name)
    except plugins.Unloadable:
        raise
    except Refused as error:
        if "/" in name or "several" in str(error):
            raise
        hint = "A scheme of your own: FILE.py:NAME, or an installed package (docs/your-scheme.md)"
        raise Refused(f"{error}{'' if str(error).endswith(('.', '?')) else '.'} {hint}") from None


class Ready(Mapping[str, Scheme]):
    """Registered configurations by name; the module of a paper is imported when one of its schemes is read.

    It includes schemes of plug-ins; iteration lists refemu's own.
    """

    def __getitem__(self, name: str) -> Scheme:
        if name not in PAPERS:
            return _plugged(name)
        config: Scheme = importlib.import_module(f"refemu.models.schemes.{PAPERS[name]}.config").READY[name]
        return config

    def __contains__(self, name: object) -> bool:
        return name in PAPERS or (isinstance(name, str) and (name.endswith(scheme_file.SUFFIX) or PLUGGED.knows(name)))

    def __iter__(self) -> Iterator[str]:
        return iter(PAPERS)

    def __len__(self) -> int:
        return len(PAPERS)


SCHEMES = Ready()


def parse(spec: str) -> Scheme:
    """The configuration of `name:field=value,...`.

    refemu.formats.config_text has the grammar of values.
    Raises Refused for an unknown scheme or field, with the nearest match, and for invalid values.
    """
    name, _, rest = spec.partition(":")
    if name.endswith(scheme_file.SUFFIX):
        path, (name, _, rest) = name, rest.partition(":")
        base = scheme_file.load(path, name)
    else:
        base = SCHEMES[name]
    changes = {}
    for part in rest.split(","):  # a later value overrides an earlier one
        for key, value in config_text.assignments(part, f"scheme {name}").items():
            changes[key] = _change(name, base, key, value)
    with reading(f"scheme {name}", "a configuration"):  # such as an integer too large for a float
        return dataclasses.replace(base, **changes)  # type: ignore[type-var]


def name(scheme: Scheme) -> str:
    """The registered name with the fewest changed fields, the first of equal ones; `path:NAME` of one in a file.

    The class of a configuration that is neither, which `parse` does not read.
    """
    if in_file := scheme_file.spec(scheme):
        return in_file[0]
    module = type(scheme).__module__
    there = [known for known, paper in PAPERS.items() if module == f"refemu.models.schemes.{paper}.config"]
    others: Iterable[str] = () if module.startswith("refemu.") else PLUGGED.working()[0]
    same = [known for known in (*there, *others) if type(SCHEMES[known]) is type(scheme)]
    if not same:
        return type(scheme).__name__
    return min(same, key=lambda known: len(differences(known, scheme)))


def text(scheme: Scheme) -> str:
    """The shortest text that `parse` turns into `scheme`."""
    known = name(scheme)
    changes = [f"{field}={config_text.write(value)}" for field, value in differences(known, scheme).items()]
    return ":".join([known, ",".join(changes)] if changes else [known])


def differences(known: str, scheme: Scheme) -> dict[str, Any]:
    """The fields in which a configuration differs from the registered one `known`, by name."""
    in_file = scheme_file.spec(scheme)
    base = in_file[1] if in_file else SCHEMES[known] if known in SCHEMES else type(scheme)()
    names = [field.name for field in dataclasses.fields(scheme)]  # type: ignore[arg-type]
    return {key: getattr(scheme, key) for key in names if getattr(scheme, key) != getattr(base, key)}


def _change(scheme: str, base: Scheme, key: str, value: str) -> Any:
    fields = {field.name: field for field in dataclasses.fields(base)}  # type: ignore[arg-type]
    lookup(f"parameter of scheme {scheme}", key, fields)
    return config_text.read(value, get_type_hints(type(base))[key], f"scheme {scheme}: {key}")
