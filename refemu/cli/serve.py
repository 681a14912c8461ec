"""`refemu serve`: a unit that answers another process, in binary frames on standard input and output."""

import argparse
import os
import sys

from refemu.arith.checks import Refused


def run(arguments: argparse.Namespace) -> int:
    """Answer until the input ends or says close; returns 0. Nothing but frames goes to standard output."""
    from refemu import units
    from refemu.golden.serve import predictor, server

    if sys.stdin is None or sys.__stdout__ is None or os.isatty(0):
        raise Refused(
            "serve: a program starts it and speaks in frames through its pipes (docs/serve-protocol.md), "
            "got a terminal or nothing"
        )
    sink = os.dup(1)
    os.dup2(2, 1)  # what anything else prints is no frame
    try:
        unit, config = units.choose(arguments.unit, arguments.config)
        ready = predictor.Predictor(unit, config, registers=arguments.registers, care=arguments.care)
        server.serve(ready, 0, sink)
    except BrokenPipeError:
        return 0  # the client went away
    finally:
        os.dup2(sink, 1)
        os.close(sink)
    return 0
