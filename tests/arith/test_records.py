"""Records are the standard library's frozen dataclasses in everything that is seen of them."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import pytest

from refemu.arith import records


def pair(decorate: Callable[..., Any], **options: Any) -> Any:
    @decorate(frozen=True, **options)
    class Point:
        """A place."""

        kinds: ClassVar[int] = 3
        x: int
        y: tuple[int, ...]
        name: str = "p"
        more: list[int] = dataclasses.field(default_factory=list)

        @cached_property
        def far(self) -> bool:
            return self.x > 9

    return Point


OURS, THEIRS = pair(records.dataclass), pair(dataclasses.dataclass)


@records.dataclass(frozen=True)
class Checked:
    value: int

    def __post_init__(self) -> None:
        if self.value < 0:
            raise ValueError("below 0")

    def __repr__(self) -> str:
        return f"<{self.value}>"


@pytest.mark.parametrize("arguments", [((1, (2,)), {}), ((1,), {"y": (2,), "name": "q"}), ((), {"x": 1, "y": ()})])
def test_record_is_as_the_standard_librarys(arguments: tuple[Any, dict[str, Any]]) -> None:
    ours, theirs = (cls(*arguments[0], **arguments[1]) for cls in (OURS, THEIRS))

    assert repr(ours) == repr(theirs)
    assert vars(ours) == vars(theirs) and list(vars(ours)) == list(vars(theirs))
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert repr(dataclasses.replace(ours, x=5)) == repr(dataclasses.replace(theirs, x=5))
    assert inspect.get_annotations(OURS.__init__) == inspect.get_annotations(THEIRS.__init__)
    assert list(inspect.signature(OURS).parameters) == list(inspect.signature(THEIRS).parameters)
    assert OURS.__match_args__ == THEIRS.__match_args__ and OURS.__dataclass_params__.frozen


@pytest.mark.parametrize(("arguments", "named"), [((1,), {}), ((1, (), "p", [], 5), {}), ((1, ()), {"z": 1})])
def test_wrong_arguments_are_refused_as_by_the_standard_library(arguments: Any, named: dict[str, Any]) -> None:
    told = []
    for cls in (OURS, THEIRS):
        with pytest.raises(TypeError) as error:
            cls(*arguments, **named)
        told.append(str(error.value).partition("__init__")[2])

    assert told[0] == told[1]


def test_record_cannot_be_written() -> None:
    record = OURS(1, ())
    for name in ("x", "new"):
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(record, name, 2)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del record.x

    assert record == OURS(1, ())


def test_equal_records_are_of_one_class_with_equal_fields_and_hash() -> None:
    left, right = Checked(1), Checked(1)

    assert left == right and left != Checked(2) and OURS(1, ()) != THEIRS(1, ())
    assert len({left, right, Checked(2)}) == 2
    assert OURS(12, ()).far and OURS(12, ()) == OURS(12, ())


def test_identity_is_kept_where_equality_is_not_asked_for() -> None:
    ours = pair(records.dataclass, eq=False, repr=False)

    assert ours(1, ()) != ours(1, ()) and "Point object" in repr(ours(1, ()))


def test_own_methods_and_checks_stay() -> None:
    with pytest.raises(ValueError, match="below 0"):
        Checked(-1)

    assert repr(Checked(3)) == "<3>"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda record: pickle.loads(pickle.dumps(record))])
def test_copies_are_equal(copied: Callable[[Any], Any]) -> None:
    assert copied(Checked(3)) == Checked(3)


def test_defaults_are_made_for_each_record() -> None:
    first, second = OURS(1, ()), OURS(1, ())
    first.more.append(1)

    assert second.more == []
