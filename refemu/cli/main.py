"""Entry point and exit codes: 0 equal or done, 1 different, 2 unusable, 3 an error inside refemu, 130 interrupted.

An uncaught exception must never look like "different", so everything unforeseen is 3.
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

UNCOLLECTED = 50_000  #: objects before a garbage collection: a start makes many, and hardly any garbage
EQUAL, DIFFERENT, UNUSABLE, BROKEN, PIPE_CLOSED, INTERRUPTED = 0, 1, 2, 3, 141, 130


def console() -> None:
    """What the command `refemu` calls: compiled kernels are kept in the user's cache (D-arith-13), then `main`."""
    from refemu.cli.output import escape_unprintable, replace_closed
    from refemu.home import cache_folder

    gc.set_threshold(UNCOLLECTED, *gc.get_threshold()[1:])
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # never called here; more retry for ever where memory is short
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
    except Exception as error:
        sys.exit(_failed(error))
    sys.exit(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. argv: the words after `refemu`, by default those of the process."""
    try:
        code = _run(argv)
        if sys.stdout is not None:  # None: a process without streams calls this
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("refemu: interrupted; nothing half-written was kept", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return PIPE_CLOSED
    except MemoryError:  # of which a traceback would need more
        with contextlib.suppress(MemoryError):
            print("refemu: out of memory; is it limited, as by ulimit -v or for a container?", file=sys.stderr)
        return UNUSABLE
    except BaseException as error:  # also the panic of a library in Rust, a cancelled task, a test's Skipped
        code = _failed(error)
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:  # Python would try again at its end, and exit with 120
            _silence_stdout()
        return code


def _run(argv: Sequence[str] | None) -> int:
    """Parse the words and run the command; the exit code."""
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
    """A plug-in that fails on stderr, as a refusal stands there; any other warning as Python shows it."""
    from refemu.plugins import PluginWarning

    ours = issubclass(category, PluginWarning)
    shown = f"refemu: {message}" if ours else warnings.formatwarning(message, category, filename, lineno, line)
    print(shown.rstrip(), file=file or sys.stderr)


def _print_json(arguments: argparse.Namespace) -> None:
    """Heed a --json that stands before the command."""
    if not arguments.prints_json:
        from refemu.arith.checks import Refused

        raise Refused(f"{arguments.module}: prints no JSON, got --json before it; `refemu schema` lists what does")
    arguments.json = True


def _set_threads(threads: int | None) -> None:
    from refemu.arith import threads as of_process

    of_process.set_threads(of_process.from_environment() if threads is None else threads)


def _failed(error: BaseException) -> int:
    from refemu.arith.checks import Refused, RefusedType

    if isinstance(error, Refused | RefusedType):
        print(f"refemu: {error}", file=sys.stderr)
        return UNUSABLE
    if isinstance(error, OSError):
        print(f"refemu: {error.filename or 'input or output'}: {error.strerror or error}", file=sys.stderr)
        return UNUSABLE
    import traceback

    traceback.print_exc()
    place = _plugged(error) or "refemu, not a difference; please report it with the lines above"
    print(f"refemu: this is an error inside {place}", file=sys.stderr)
    return BROKEN


def _plugged(error: BaseException) -> str:
    """The last line of a plug-in that led to an error; "" if none did."""
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
    """The reader went away: keep the interpreter from complaining when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
