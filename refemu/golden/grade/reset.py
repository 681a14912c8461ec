"""Faults of class `reset`: state that is kept where a case starts."""

from collections.abc import Iterator

from refemu.golden.grade import device
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.fault import Fault


def faults(answers: Answers) -> Iterator[Fault]:
    """One for an event unit: all of its registers keep their values."""
    if answers.unit.timing == "event":
        yield Fault("kept", "no register is reset where a case starts", device.kept)
