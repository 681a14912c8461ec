"""`refemu serve`: serve a unit to another process over stdin and stdout, in binary frames."""

import argparse
import os
import sys

from refemu.arith.checks import Refused


def run(arguments: argparse.Namespace) -> int:
    """Answer until the input ends or closes the session; return 0. Only frames go to standard output."""
    from refemu import units
    from refemu.golden.serve import predictor, server

    if sys.stdin is None or sys.__stdout__ is None or os.isatty(0):
        raise Refused(
            "serve: must be started by a program with pipes (docs/serve-protocol.md), got a terminal or a closed stream"
        )
    sink = os.dup(1)
    os.dup2(2, 1)  # text that other code prints must not mix with frames
    try:
        unit, config = units.choose(arguments.unit, arguments.config)
        ready = predictor.Predictor(unit, config, registers=arguments.registers, care=arguments.care)
        server.serve(ready, 0, sink)
    except BrokenPipeError:
        return 0  # the client has ended
    finally:
        os.dup2(sink, 1)
        os.close(sink)
    return 0
