"""Ports of the index MatMul: an output column, and what a norm and a bias add to it.

Paper: [kllm §III-B, §III-D, Fig. 3, Fig. 5; §III-C2, Fig. 4 for the norm]. Decisions: D-kllm-37 (what a norm divides),
D-kllm-39 (LayerNorm), D-kllm-40 (bias).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.units.ports import Port, Ports

NormPorts = Literal["none", "rms", "layer"]  #: Norm whose divided operands come in at ports

OUTPUTS = (Port("y", 16, encoding="f16", meaning="the output"), Port("overflow", 1, meaning="y is not finite"))


def ports(config: Mapping[str, Any]) -> Ports:
    """Ports in one configuration.

    Parameters
    ----------
    config : mapping
        `k`, `a_bits`, `b_bits`, `integer`, `preset`, `biased` and `norm`, as for `IndexMatmul`.

    Returns
    -------
    Ports
        Inputs and outputs.

    References
    ----------
    [kllm §III-B, §III-C2, §III-D]
    """
    operands = _integers(config) if config["integer"] else (*_a(config), *_b(config), _products(config))
    return Ports(inputs=(*operands, *_merge(config)), outputs=OUTPUTS)


def _integers(config: Mapping[str, Any]) -> tuple[Port, ...]:
    """Integers as amounts at B's indices; B has no scale."""
    k = config["k"]
    integers = Port("a_index", config["a_bits"], k, meaning="integers"), _words("a_outlier", k, "unquantized scores")
    return (*integers, _scale("a_scale"), *_columns(config, True), _centroids(config, "centroids of B"))


def _a(config: Mapping[str, Any]) -> tuple[Port, ...]:
    """A row of A; behind a norm its scale is divided, which may leave 0 or infinity of it."""
    k, a_bits = config["k"], config["a_bits"]
    divided = Port("a_scale", 16, encoding="f16", meaning="scale of A over the norm's divisor", most=0x7C00)
    return (
        Port("a_index", a_bits, k, meaning="indices of A"),
        Port("a_mask", 1, k, meaning="1 = an outlier of A"),
        _words("a_outlier", k, "values of A's outliers"),
        divided if is_normed(config) else _scale("a_scale"),
        _words("a_codebook", 1 << a_bits, "centroids of A"),
    )


def _b(config: Mapping[str, Any]) -> tuple[Port, ...]:
    """A column of B; behind a norm without outliers, its centroids divided for the sparse path (D-kllm-37)."""
    normed = is_normed(config)
    meaning = "centroids of B over the norm's divisor, for the sparse path" if normed else "centroids of B"
    return (*_columns(config, not normed), _scale("b_scale"), _centroids(config, meaning))


def _columns(config: Mapping[str, Any], outliers: bool) -> Iterator[Port]:
    yield Port("b_index", config["b_bits"], config["k"], meaning="indices of B")
    if outliers:
        yield Port("b_mask", 1, config["k"], meaning="1 = an outlier of B")
        yield _words("b_outlier", config["k"], "values of B's outliers")


def _products(config: Mapping[str, Any]) -> Port:
    width = 32 if KllmArith.preset(config["preset"]).table == "fp32" else 16
    entries = 1 << config["a_bits"] + config["b_bits"]
    return Port("products", width, entries, encoding=f"f{width}", meaning="product codebook")


def _merge(config: Mapping[str, Any]) -> Iterator[Port]:
    """Addends of the merge, in the order in which they are added."""
    if config.get("norm") == "layer":
        yield _words("shift", 1, "LayerNorm's mean over deviation, h")
        yield _words("row_sum", 1, "sum of the column's weights, R_n")
    if config.get("biased", False):
        yield _words("bias", 1, "added last")


def is_normed(config: Mapping[str, Any]) -> bool:
    """Whether operands that a norm divided come in."""
    return bool(config.get("norm", "none") != "none")


def _words(name: str, lanes: int, meaning: str) -> Port:
    return Port(name, 16, lanes, encoding="f16", meaning=meaning)


def _scale(name: str) -> Port:
    return Port(name, 16, encoding="f16", meaning=f"scale of {name[0].upper()}", least=1, most=0x7BFF)


def _centroids(config: Mapping[str, Any], meaning: str) -> Port:
    return _words("b_codebook", 1 << config["b_bits"], meaning)
