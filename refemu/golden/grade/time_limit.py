"""A time limit for a block that runs mutants, which may never end."""

import gc
import signal
import threading
from _thread import interrupt_main
from types import FrameType, TracebackType
from typing import Any

from refemu.arith.checks import Refused

AGAIN = 0.02  #: seconds between interrupts: a mutant may catch one, and a finalizer may lose it


class StoppedAfter:
    """A block of the main thread that raises Refused after some seconds."""

    late: threading.Event
    ended: threading.Event
    thread: threading.Thread
    before: Any

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.late, self.ended = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._interrupt, daemon=True)

    def __enter__(self) -> None:
        self.before = signal.signal(signal.SIGINT, self._interrupted)
        self.thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.ended.set()
        self.thread.join()
        signal.signal(signal.SIGINT, self.before)
        if self.late.is_set() and kind is KeyboardInterrupt:
            raise Refused(f"took more than {self.seconds:g} s") from None

    def _interrupt(self) -> None:
        while not self.ended.wait(AGAIN if self.late.is_set() else self.seconds):
            self.late.set()
            interrupt_main()

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        if self.late.is_set():
            if not _ending(frame):
                raise KeyboardInterrupt
        elif callable(self.before):  # a shell's background process ignores the signal
            self.before(number, frame)


def _ending(frame: FrameType | None) -> bool:
    """Whether a frame leaves the block, or is in a callback of the garbage collector, which loses exceptions."""
    aside = {StoppedAfter.__exit__.__code__, *(getattr(each, "__code__", None) for each in gc.callbacks)}
    while frame is not None and frame.f_code not in aside:
        frame = frame.f_back
    return frame is not None
