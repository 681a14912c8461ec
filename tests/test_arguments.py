"""Arguments of public functions are checked against their annotations."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from refemu import golden, models
from refemu.arguments import checked
from refemu.arith.checks import Refused, RefusedType

#: values of which no annotation of the function admits one
WRONG: tuple[Any, ...] = (3, None, [1.5], b"abc", {"a": 1}, np.zeros(3))


@checked
def some(
    path: str | Path,
    names: Sequence[str | Path] | None = None,
    ids: Sequence[int] | np.ndarray = (),
    kind: Literal["a", "b"] = "a",
    shown: Callable[[int], None] | None = None,
    table: Mapping[str, Any] | None = None,
    share: float = 0.0,
) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": 3}, "test_arguments.some: path must be a str or a path, got 3"),
        ({"path": None}, "test_arguments.some: path must be a str or a path, got None"),
        ({"names": "abc"}, "names must be a sequence of str or path, got 'abc'; write ['abc']"),
        ({"names": ["x", 4]}, "names must be a sequence of str or path, got 4 at index 1"),
        ({"names": np.zeros(2)}, "names must be a sequence of str or path, got an array"),
        (
            {"ids": "abc"},
            "ids must be a sequence of int or an array, got 'abc'; `model.tokenizer.encode(text)` encodes",
        ),
        ({"kind": 4}, "kind must be a str, got 4"),
        ({"shown": 4}, "shown must be a function, got 4"),
        ({"table": [4]}, "table must be a mapping, got [4]"),
        ({"share": "much"}, "share must be a number, got 'much'"),
    ],
)
def test_argument_of_another_type_is_rejected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RefusedType) as refusal:
        some(**{"path": "x", **arguments})
    assert message.removeprefix("test_arguments.") in str(refusal.value)


def test_equivalent_types_are_accepted() -> None:
    some(Path("x"), ("a", Path("b")), np.arange(3), "b", print, {}, np.float32(1))
    some("x", (each for each in "ab"), range(3), share=1, table=None)
    with pytest.raises(TypeError, match="missing 1 required"):
        some()  # type: ignore[call-arg]


CALLS: dict[Callable[..., Any], dict[str, Any]] = {
    golden.load: {"path": "x"},
    golden.check: {"path": "x"},
    golden.diff: {"golden_path": "x", "dut_path": "y", "ports": None, "waive": ()},
    golden.diff_cases: {"old": "x", "new": "y"},
    golden.generate: {"out": "/dev/null/x", "units": ["ovp_decoder"], "configs": None, "kinds": None},
    golden.generate_minimal: {"out": "/dev/null/x", "units": ["ovp_decoder"], "kinds": None},
    golden.grade_set: {"path": "x", "classes": None},
    golden.grade_stimulus: {"path": "x", "unit": "ovp_decoder", "config": None},
    golden.variants: {"unit": "nothing", "config": None, "path": None},
    models.load: {"name": "nothing"},
    models.run: {"model": "nothing", "token_ids": [1], "scheme": "fp16"},
    models.prepare: {"model": "nothing", "scheme": "fp16"},
    models.perplexity: {"model": "nothing", "text": None, "ids": None},
    models.generate_text: {"model": "nothing", "prompt": "x"},
    models.embedding: {"model": "nothing", "token_ids": [1]},
    models.encode: {"model": "nothing", "token_ids": [1]},
    models.compose: {"linear": "nothing", "attention": "nothing"},
    models.session: {"prepared": "nothing"},
}


@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
def test_public_function_answers_wrong_types_by_itself(function: Callable[..., Any]) -> None:
    """Python's own errors name no argument."""
    for name in CALLS[function]:
        for wrong in WRONG:
            if wrong is None and inspect.signature(function).parameters[name].default is None:
                continue
            with pytest.raises((Refused, RefusedType)) as refusal:
                function(**{**CALLS[function], name: wrong})
            assert "TypeError" not in str(refusal.value)


def test_one_unit_in_place_of_a_sequence_is_named() -> None:
    with pytest.raises(
        RefusedType, match=r"golden.generate: units must be a sequence of str or Unit, .* \['orizuru'\]"
    ):
        golden.generate("x", units="orizuru")  # type: ignore[arg-type]
