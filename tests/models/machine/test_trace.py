"""Trace events: a track a resource, and a span for every use of it."""

import dataclasses
import json
from fractions import Fraction

from refemu.models.machine import System, Work, placed, trace

SYSTEM = System("a machine", 1000, Fraction(4), 5, "tiles")
WORKS = [Work("a", "linear", {"x": 10, "y": 3}, 12, bits={"weights": 64}), Work("b", "other", {"x": 5}, 5)]


def test_resources_have_tracks_and_uses_spans() -> None:
    plain = json.loads(json.dumps(trace.events(placed(WORKS, SYSTEM), SYSTEM)))["traceEvents"]

    tracks = {event["tid"]: event["args"]["name"] for event in plain if event["name"] == "thread_name"}
    assert list(tracks.values()) == ["memory", "x", "y"]
    shown = [each for each in plain if each["ph"] == "X"]
    spans = [(tracks[each["tid"]], each["name"], each["ts"], each["dur"]) for each in shown]
    assert spans == [("memory", "a", 0, 2), ("x", "a", 0, 10), ("x", "b", 12, 5), ("y", "a", 0, 3)]
    assert shown[0]["args"]["weights"] == 8


def test_simultaneous_uses_have_separate_tracks() -> None:
    """Complete events of a thread must nest; here c begins and ends during a, b after a has begun."""
    works = [
        Work("a", "linear", {"x": 10}, 10, after=(), holds=("one",)),
        Work("b", "linear", {"x": 10}, 10, after=(), streams={"a": (3, 0)}, holds=("two",)),
        Work("c", "linear", {"x": 5}, 5, after=(), streams={"a": (4, 0)}, holds=("three",)),
        Work("d", "linear", {"x": 5}, 5, after=("a",), holds=("three",)),
    ]
    system = dataclasses.replace(SYSTEM, overlap="operations")
    plain = trace.events(placed(works, system), system)["traceEvents"]

    tracks = {event["tid"]: event["args"]["name"] for event in plain if event["name"] == "thread_name"}
    assert tracks == {0: "memory", 1: "x", 2: "x 2", 3: "x 3"}
    spans = [(each["tid"], each["name"], each["ts"], each["dur"]) for each in plain if each["ph"] == "X"]
    assert spans == [(1, "a", 0, 10), (1, "d", 10, 5), (2, "b", 3, 10), (3, "c", 4, 5)]
