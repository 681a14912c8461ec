"""Records of parameters are the standard library's frozen dataclasses, with values of Python's own."""

import dataclasses

import numpy as np
import pytest

from refemu.arith.records import parameters


@parameters
class Checked:
    value: int
    more: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if type(self.value) is not int:
            raise TypeError("not an int of Python")


@parameters(eq=False, repr=False)
class Bare:
    value: int

    def __post_init__(self) -> None:
        pass


def test_numpy_scalars_are_pythons_own_before_they_are_checked() -> None:
    made = Checked(np.int64(4), (np.float32(0.5), 2.0))  # type: ignore[arg-type]

    assert repr(made) == "Checked(value=4, more=(0.5, 2.0))"
    assert made == Checked(4, (0.5, 2.0)) and hash(made) == hash(Checked(4, (0.5, 2.0)))
    assert [type(value) for value in made.more] == [float, float]
    assert type(dataclasses.replace(made, value=np.uint8(7)).value) is int  # type: ignore[arg-type]


def test_what_python_made_is_kept_as_it_is() -> None:
    with pytest.raises(TypeError, match="not an int of Python"):
        Checked("4")  # type: ignore[arg-type]


def test_options_are_the_standard_librarys_and_records_are_frozen() -> None:
    assert Bare(1) != Bare(1)
    assert repr(Bare(1)).startswith("<")
    with pytest.raises(dataclasses.FrozenInstanceError):
        Bare(1).value = 2  # type: ignore[misc]
