"""Entry point and exit codes: 0 equal or done, 1 different, 2 invalid input, 3 error inside refemu, 130 interrupted.

An uncaught exception must never look like "different", so its exit code is 3.
"""

import argparse
import contextlib
import gc
import importlib
import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

from refemu.cli.arguments import parser

UNCOLLECTED = 50_000  #: objects before a garbage collection; a start makes many, and little garbage
EQUAL, DIFFERENT, UNUSABLE, BROKEN, PIPE_CLOSED, INTERRUPTED = 0, 1, 2, 3, 141, 130


def console() -> None:
    """Run the command `refemu`: set the cache of compiled kernels (D-arith-13) and the streams, then call `main`."""
    from refemu.cli.output import escape_unprintable, replace_closed
    from refemu.home import cache_folder

    gc.set_threshold(UNCOLLECTED, *gc.get_threshold()[1:])
    os.environ.setdefault(
        "OPENBLAS_NUM_THREADS", "1"
    )  # refemu never calls BLAS; with more threads it retries forever if memory is short
    replace_closed()
    escape_unprintable()
    warnings.showwarning = _show_warning
    if not os.path.isfile(__file__):
        print(f"refemu: must run from a folder, got {__file__} in an archive; unpack or install it", file=sys.stderr)
        sys.exit(UNUSABLE)
    if "_ARGCOMPLETE" in os.environ:
        from refemu.cli.help import completion

        completion.answer(parser())
    try:
        os.environ.setdefault("REFEMU_CACHE", str(cache_folder() / "kernels"))
        os.environ.setdefault("REFEMU_COMPILE", "later")
    except Exception as error:
        sys.exit(_failed(error))
    sys.exit(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. argv: the words after `refemu` (default: those of the process)."""
    try:
        code = _run(argv)
        if sys.stdout is not None:  # None in a process without streams
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("refemu: interrupted; unfinished files were removed", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return PIPE_CLOSED
    except BaseException as error:  # also panics of libraries in Rust, and cancelled tasks
        code = _failed(error)
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:  # Python would try again at exit, and exit with 120
            _silence_stdout()
        return code


def _run(argv: Sequence[str] | None) -> int:
    """Parse the words and run the command; return its exit code."""
    try:
        top = parser()
        arguments = top.parse_args(argv)
        if arguments.module is None and not arguments.version:
            top.print_help(sys.stderr)
            return UNUSABLE
        arguments.command = shlex.join(["refemu", *(sys.argv[1:] if argv is None else argv)])
        if "threads" in arguments:
            _set_threads(arguments.threads)
        if arguments.version:
            arguments.module, arguments.prints_json = "version", True
        if arguments.json_first:
            _print_json(arguments)
        return int(importlib.import_module(f"refemu.cli.{arguments.module}").run(arguments))
    except SystemExit as stop:  # argparse: 0 for --help, 2 for bad usage
        return stop.code if isinstance(stop.code, int) else UNUSABLE


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print the warning of a plug-in in the form of an error, and any other warning as Python does."""
    from refemu.plugins import PluginWarning

    ours = issubclass(category, PluginWarning)
    shown = f"refemu: {message}" if ours else warnings.formatwarning(message, category, filename, lineno, line)
    print(shown.rstrip(), file=file or sys.stderr)


def _print_json(arguments: argparse.Namespace) -> None:
    """Apply a --json that precedes the command."""
    if not arguments.prints_json:
        from refemu.arith.checks import Refused

        raise Refused(f"{arguments.module}: has no --json; `refemu schema` lists the commands that have it")
    arguments.json = True


def _set_threads(threads: int | None) -> None:
    from refemu.arith import threads as of_process

    of_process.set_threads(of_process.from_environment() if threads is None else threads)


def _lacks_memory(error: BaseException | None) -> bool:
    """Whether memory is exhausted, also if a library raised another error while handling that."""
    return error is not None and (isinstance(error, MemoryError) or _lacks_memory(error.__context__))


def _failed(error: BaseException) -> int:
    from refemu.arith.checks import Refused, RefusedType, one_line

    if isinstance(error, Refused | RefusedType):
        print(f"refemu: {error}", file=sys.stderr)
        return UNUSABLE
    if isinstance(error, OSError):
        said = f"{error.filename or 'input or output'}: {error.strerror or error}"
        print(f"refemu: {one_line(said)}", file=sys.stderr)
        return UNUSABLE
    if _lacks_memory(error):
        with contextlib.suppress(MemoryError):  # a traceback would need more memory
            print("refemu: out of memory; is it limited by ulimit -v or a container?", file=sys.stderr)
        return UNUSABLE
    import traceback

    traceback.print_exc()
    place = _plugged(error) or "refemu, not a difference; please report it with the lines above"
    print(f"refemu: this is an error inside {place}", file=sys.stderr)
    return BROKEN


def _plugged(error: BaseException) -> str:
    """The last line of a plug-in in a traceback; "" if there is none."""
    from traceback import walk_tb

    from refemu import plugins

    brought = {plug.module.partition(".")[0]: plug.origin for kind in plugins.KINDS for plug in plugins.plugs(kind)}
    lines = [
        f"plug-in {brought[top].distribution}: {frame.f_code.co_filename}:{line}"
        for frame, line in walk_tb(error.__traceback__)
        if (top := str(frame.f_globals.get("__name__")).partition(".")[0]) in brought
    ]
    return lines[-1] if lines else ""


def _silence_stdout() -> None:
    """Prevent a message of Python, which flushes at exit, after the reader of a pipe has ended."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
