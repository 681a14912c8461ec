"""Comments of fields are found after them and before them."""

from dataclasses import dataclass

from refemu.units import comments


@dataclass
class _Base:
    inherited: int  #: of the base


@dataclass
class _Example(_Base):
    after: int = 1  #: after
    none: int = 2
    plain: int = 3  # no mark
    #: before,
    #: two lines,
    both: tuple[int, ...] = (
        1,
        2,
    )  #: and after
    text: str = "#: in a string"


def test_comments_of_a_class() -> None:
    assert comments.of_class(_Example) == {
        "inherited": "of the base",
        "after": "after",
        "both": "before, two lines, and after",
    }


def test_a_class_without_a_source_has_no_comments() -> None:
    names: dict[str, type] = {"__name__": "session"}
    exec("class Typed:\n    width: int  #: bits", names)

    assert comments.of_class(names["Typed"]) == {}
