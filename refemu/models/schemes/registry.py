"""Schemes by name: assignment of a paper's units to the parts of the transformer.

`parse("olive-4:low=80,types=int")` is the configuration `olive-4` with two fields changed; `text` writes it back.
"""

import dataclasses
import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_type_hints

from refemu import plugins
from refemu.arith.checks import Refused, RefusedType, lookup
from refemu.arith.reading import reading
from refemu.formats import spelling
from refemu.models.backend import Backend
from refemu.models.model import Model
from refemu.models.schemes.scheme import CalibrationTokens, Prepared, Progress, Scheme

#: The folder of every scheme, in whose `config.READY` it stands.
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


def _admitted(scheme: Any, known: str, origin: plugins.Origin) -> Scheme:
    if isinstance(scheme, str):
        raise RefusedType(f"scheme {known}: a configuration is needed, got {scheme!r}")
    return find(scheme)


_PLUGGED = plugins.Registry("scheme", lambda: PAPERS, _admitted)  #: schemes of plug-ins, and those registered by call


def register(name: str, scheme: Scheme) -> Scheme:
    """Add a scheme in this process; `parse`, and `--scheme` of a program that does so, then know its name.

    A distribution brings schemes by entry points `refemu.schemes`. Refuses a name of refemu's own, and what is no
    configuration.
    """
    return _PLUGGED.register(scheme, name)


def plugged() -> tuple[str, ...]:
    """Names of the schemes that are not refemu's own."""
    return _PLUGGED.names()


def broken() -> tuple[plugins.Broken, ...]:
    """Load every scheme of every installed distribution, and list those that fail."""
    return _PLUGGED.working()[1]


class Ready(Mapping[str, Scheme]):
    """The registered configurations by name; the module of a paper is imported when one of its schemes is read."""

    def __getitem__(self, name: str) -> Scheme:
        if name not in PAPERS:
            return _PLUGGED.find(name)
        config: Scheme = importlib.import_module(f"refemu.models.schemes.{PAPERS[name]}.config").READY[name]
        return config

    def __contains__(self, name: object) -> bool:
        return name in PAPERS or (isinstance(name, str) and _PLUGGED.knows(name))

    def __iter__(self) -> Iterator[str]:
        return iter(PAPERS)

    def __len__(self) -> int:
        return len(PAPERS)


SCHEMES = Ready()


def parse(spec: str) -> Scheme:
    """The configuration that `name:field=value,...` stands for.

    refemu.formats.spelling has the grammar of values.
    Refuses an unknown scheme or field with the nearest match, and values that the configuration refuses.
    """
    name, _, rest = spec.partition(":")
    base = SCHEMES[name] if name in PAPERS else _PLUGGED.find(name)
    changes = {}
    for part in rest.split(","):  # a later value takes the place of an earlier one, so that a text can be extended
        for key, value in spelling.assignments(part, f"scheme {name}").items():
            changes[key] = _change(name, base, key, value)
    with reading(f"scheme {name}", "a configuration"):  # such as an integer beyond every fraction
        return dataclasses.replace(base, **changes)  # type: ignore[type-var]


def find(scheme: "str | Scheme") -> Scheme:
    """The configuration of a text, or the configuration itself.

    Refuses what is no dataclass instance, and one whose `prepared_by` names no function.
    """
    if isinstance(scheme, str):
        return parse(scheme)
    config: Any = scheme
    if isinstance(config, type):
        raise RefusedType(f"scheme: a name or a configuration is needed, got the class {config.__name__}")
    if not dataclasses.is_dataclass(config) or not hasattr(config, "prepared_by"):
        raise RefusedType(f"scheme: a name or a configuration is needed, got {type(config).__name__}")
    _names(config, "prepared_by")
    return scheme


def prepare(
    config: Scheme, model: Model, backend: Backend, calibration: CalibrationTokens | None, progress: Progress
) -> Prepared:
    """Call the function that `config.prepared_by` names; `models.prepare` also takes names, and checks the model."""
    function = _function(config, "prepared_by")
    prepared: Prepared = function(
        config=config, model=model, backend=backend, calibration=calibration, progress=progress
    )
    return prepared


def taps(config: Scheme) -> tuple[str, ...]:
    """The units whose ports a run under `config` can show, in alphabetical order; none if the scheme taps none."""
    return _function(config, "tapped_by")(config) if hasattr(config, "tapped_by") else ()


def machine(config: Scheme) -> Any:
    """The function that runs a block on the scheme's machine; refuses a scheme without one."""
    return _of_machine(config, "machine_by")


def costs(config: Scheme) -> Any:
    """The function that gives the cost of a call on the scheme's machine; refuses a scheme without one."""
    return _of_machine(config, "costed_by")


def _of_machine(config: Scheme, attribute: str) -> Any:
    if not hasattr(config, attribute):
        ready = ", ".join(known for known, scheme in SCHEMES.items() if hasattr(scheme, attribute))
        raise Refused(f"machine: scheme {name(config)} has no machine; those of {ready} are there")
    return _function(config, attribute)


def _function(config: Scheme, attribute: str) -> Any:
    """The function that a class variable names, imported."""
    module, function = _names(config, attribute)
    return getattr(importlib.import_module(module), function)


def _names(config: Any, attribute: str) -> tuple[str, str]:
    """Module and function in a class variable "package.module:function"; refuses another form."""
    text = getattr(config, attribute)
    module, _, function = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not module or not function:
        raise RefusedType(f"{type(config).__name__}: {attribute} must be 'package.module:function', got {text!r}")
    return module, function


def name(scheme: Scheme) -> str:
    """The registered name with the fewest fields to change; the first of equals."""
    module = type(scheme).__module__
    there = [known for known, paper in PAPERS.items() if module == f"refemu.models.schemes.{paper}.config"]
    others: Iterable[str] = () if module.startswith("refemu.") else _PLUGGED.working()[0]
    same = [known for known in (*there, *others) if type(SCHEMES[known]) is type(scheme)]
    return min(same, key=lambda known: len(_differences(known, scheme)))


def text(scheme: Scheme) -> str:
    """The shortest text that `parse` turns into `scheme`."""
    known = name(scheme)
    changes = [f"{field}={spelling.write(value)}" for field, value in _differences(known, scheme).items()]
    return ":".join([known, ",".join(changes)] if changes else [known])


def describe() -> list[dict[str, Any]]:
    """One row per registered scheme: name, paper, and its parameters as `parse` takes them."""
    rows = []
    for known, scheme in (*SCHEMES.items(), *_PLUGGED.working()[0].items()):
        fields = [field.name for field in dataclasses.fields(scheme)]  # type: ignore[arg-type]
        values = " ".join(f"{field}={spelling.write(getattr(scheme, field))}" for field in fields)
        rows.append({"name": known, "paper": scheme.paper, "parameters": values})
    return rows


def parameters(scheme: Scheme) -> dict[str, Any]:
    """Every field of a configuration by name, as a manifest carries it; tuples become lists."""
    fields = dataclasses.asdict(scheme)  # type: ignore[call-overload]
    return {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}


def _differences(known: str, scheme: Scheme) -> dict[str, Any]:
    base = SCHEMES[known]
    names = [field.name for field in dataclasses.fields(scheme)]  # type: ignore[arg-type]
    return {key: getattr(scheme, key) for key in names if getattr(scheme, key) != getattr(base, key)}


def _change(scheme: str, base: Scheme, key: str, value: str) -> Any:
    fields = {field.name: field for field in dataclasses.fields(base)}  # type: ignore[arg-type]
    lookup(f"parameter of scheme {scheme}", key, fields)
    return spelling.read(value, get_type_hints(type(base))[key], f"scheme {scheme}: {key}")
