"""Records of parameters are the standard library's frozen dataclasses, with values of Python's own, and options."""

import dataclasses
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pytest

from refemu.arith.checks import Refused, RefusedType
from refemu.arith.records import parameters, plain_fields, require_options


@parameters
class Checked:
    value: int
    more: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        plain_fields(self)
        if type(self.value) is not int:
            raise TypeError("not an int of Python")


@parameters(eq=False, repr=False)
class Bare:
    value: int

    def __post_init__(self) -> None:
        plain_fields(self)


def test_numpy_scalars_become_python_scalars() -> None:
    record = Checked(np.int64(4), (np.float32(0.5), 2.0))  # type: ignore[arg-type]

    assert repr(record) == "Checked(value=4, more=(0.5, 2.0))"
    assert record == Checked(4, (0.5, 2.0)) and hash(record) == hash(Checked(4, (0.5, 2.0)))
    assert [type(value) for value in record.more] == [float, float]
    assert type(dataclasses.replace(record, value=np.uint8(7)).value) is int  # type: ignore[arg-type]


def test_plain_python_values_are_unchanged() -> None:
    with pytest.raises(TypeError, match="not an int of Python"):
        Checked("4")  # type: ignore[arg-type]


def test_options_are_standard_librarys_and_records_are_frozen() -> None:
    assert Bare(1) != Bare(1)
    assert repr(Bare(1)).startswith("<")
    with pytest.raises(dataclasses.FrozenInstanceError):
        Bare(1).value = 2  # type: ignore[misc]


@parameters
class Options:
    kind: ClassVar[Literal["options"]] = "options"

    mode: Literal["paper", "exact"] = "paper"
    width: Literal[4, 8] | None = 4
    fused: bool = True
    split: "bool | None" = None
    types: tuple[Literal["int", "flint"], ...] = ("int",)
    count: int = 1
    name: str | None = None

    def __post_init__(self) -> None:
        plain_fields(self)
        require_options(self, "thing")


def test_options_are_what_annotations_name() -> None:
    free: dict[str, Any] = {"count": -3, "name": "anything"}

    assert Options("exact", None, False, True, ("flint", "int"), **free).width is None
    assert Options(fused=np.True_, types=()).fused is True  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mode": "trunk"}, "thing: mode must be one of 'paper', 'exact', got 'trunk'"),
        ({"mode": None}, "thing: mode must be one of 'paper', 'exact', got None"),
        ({"width": 5}, "thing: width must be one of 4, 8, None, got 5"),
        ({"fused": "no"}, "thing: fused must be one of True, False, got 'no'"),
        ({"split": 2}, "thing: split must be one of True, False, None, got 2"),
        ({"types": ("int", "float")}, "thing: types must be one of 'int', 'flint', got 'float'"),
    ],
)
def test_another_value_is_rejected_with_choices(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused) as refusal:
        Options(**wrong)

    assert str(refusal.value) == message


def test_rejected_option_is_answered_with_each_choice_once() -> None:
    @dataclasses.dataclass(frozen=True)
    class Twice:
        rule: Literal["wrap"] | Literal["refuse", "wrap"] = "wrap"

        def __post_init__(self) -> None:
            require_options(self, "thing")

    with pytest.raises(Refused, match="thing: rule must be one of 'wrap', 'refuse', got 'clip'"):
        Twice("clip")  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True)
class Sized:
    """An integer of a range, and one without."""

    width: Annotated[int, 2, 1 << 3] = 4
    offset: int = 0

    def __post_init__(self) -> None:
        require_options(self, "thing")


def test_integers_of_a_range_are_within_it() -> None:
    assert [Sized(width, -100).width for width in (2, 8)] == [2, 8]
    for width in (1, 9):
        with pytest.raises(Refused, match=rf"^thing: width must be in \[2, 8\], got {width}$"):
            Sized(width)
    for other in (True, 4.0, "4"):
        with pytest.raises(RefusedType, match=r"^thing: width must be an int, got "):
            Sized(other)  # type: ignore[arg-type]
