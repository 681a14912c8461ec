"""Schemes by name: which unit of which paper does which part of the transformer.

`parse("olive-4:low=80,types=int")` is the configuration `olive-4` with two fields changed; `text` writes it back.
"""

import dataclasses
from typing import Any

from refemu.arith.checks import Refused, RefusedType, lookup
from refemu.arith.reading import reading
from refemu.models.schemes.fp16 import Fp16Config
from refemu.models.schemes.harmonia import KV4, KV4_NAIVE, KV8
from refemu.models.schemes.kllm import A3, A3_S, A4, A4_S
from refemu.models.schemes.leankv import READY
from refemu.models.schemes.olive import OliveConfig
from refemu.models.schemes.olive_study import OliveStudyConfig
from refemu.models.schemes.scheme import Scheme

SCHEMES: dict[str, Scheme] = {
    "fp16": Fp16Config(),
    "olive-4": OliveConfig(),
    "olive-8": OliveConfig(weight_bits=8, act_bits=8),
    "olive-study": OliveStudyConfig(),
    "kllm-a4": A4,
    "kllm-a4-s": A4_S,
    "kllm-a3": A3,
    "kllm-a3-s": A3_S,
    "harmonia-kv8": KV8,
    "harmonia-kv4": KV4,
    "harmonia-kv4-naive": KV4_NAIVE,
    **READY,
}
WORDS = {"none": None, "true": True, "false": False}


def parse(spec: str) -> Scheme:
    """The configuration that `name:field=value,...` stands for.

    Values: integers, decimal fractions, `true`, `false`, `none`, words; the members of a tuple are joined by `+`,
    a tuple without members is `none`.
    Refuses an unknown scheme or field with the nearest match, and values that the configuration refuses.
    """
    name, _, rest = spec.partition(":")
    base = lookup("scheme", name, SCHEMES)
    changes = dict(_change(name, base, part) for part in rest.split(",") if part)
    with reading(f"scheme {name}", "a configuration"):  # such as an integer beyond every fraction
        return dataclasses.replace(base, **changes)  # type: ignore[type-var]


def find(scheme: "str | Scheme") -> Scheme:
    """The configuration of a text, or the configuration itself."""
    if isinstance(scheme, str):
        return parse(scheme)
    config: Any = scheme
    if not dataclasses.is_dataclass(config) or not hasattr(config, "prepare"):
        raise RefusedType(f"scheme: a name or a configuration is needed, got {type(config).__name__}")
    return scheme


def name(scheme: Scheme) -> str:
    """The registered name with the fewest fields to change; the first of equals."""
    same = [known for known, base in SCHEMES.items() if type(base) is type(scheme)]
    return min(same, key=lambda known: len(_differences(known, scheme)))


def text(scheme: Scheme) -> str:
    """The shortest text that `parse` turns into `scheme`."""
    known = name(scheme)
    changes = [f"{field}={_text(value)}" for field, value in _differences(known, scheme).items()]
    return ":".join([known, ",".join(changes)] if changes else [known])


def describe() -> list[dict[str, Any]]:
    """One row per registered scheme: name, paper, and its parameters as `parse` takes them."""
    rows = []
    for known, scheme in SCHEMES.items():
        fields = [field.name for field in dataclasses.fields(scheme)]  # type: ignore[arg-type]
        values = " ".join(f"{field}={_text(getattr(scheme, field))}" for field in fields)
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


def _change(scheme: str, base: Scheme, part: str) -> tuple[str, Any]:
    key, equals, value = part.partition("=")
    if not equals:
        raise Refused(f"scheme {scheme}: parameters are field=value, got {part!r}")
    fields = {field.name: field for field in dataclasses.fields(base)}  # type: ignore[arg-type]
    lookup(f"parameter of scheme {scheme}", key, fields)
    if isinstance(getattr(base, key), tuple):
        return key, () if value == "none" else tuple(_value(member) for member in value.split("+") if member)
    return key, _value(value)


def _value(text: str) -> Any:
    if text in WORDS:
        return WORDS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "+".join(map(_text, value)) or "none"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
