"""Trace events: a track a resource, and a span for every use of it."""

import json
from fractions import Fraction

from refemu.models.machine import System, Work, placed, trace

SYSTEM = System("a machine", 1000, Fraction(4), 5, "tiles")
WORKS = [Work("a", "linear", {"x": 10, "y": 3}, 12, bits={"weights": 64}), Work("b", "other", {"x": 5}, 5)]


def test_every_resource_has_a_track_and_every_use_a_span() -> None:
    plain = json.loads(json.dumps(trace.events(placed(WORKS, SYSTEM), SYSTEM)))["traceEvents"]

    tracks = {event["tid"]: event["args"]["name"] for event in plain if event["name"] == "thread_name"}
    assert list(tracks.values()) == ["memory", "x", "y"]
    spans = [(tracks[each["tid"]], each["name"], each["ts"], each["dur"]) for each in plain if each["ph"] == "X"]
    assert spans == [("memory", "a", 0, 2), ("x", "a", 0, 10), ("y", "a", 0, 3), ("x", "b", 12, 5)]
    assert plain[-4]["args"]["weights"] == 8
