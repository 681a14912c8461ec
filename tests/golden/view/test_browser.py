"""The pages in headless Chromium: keys, links, filters, marks, and no error in a script.

Without Chromium, chromedriver and selenium (extra `browser`) the tests are skipped, and fail where CI is set.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import golden
from refemu.golden.view import set_page, step_page
from refemu.units import orizuru
from tests.draw.shapes import texts
from tests.golden.view.test_step_page import shown
from tools.site import fit

pytestmark = pytest.mark.long
SET = Path(__file__).resolve().parents[3] / "vectors" / "ovp_decoder-int4"
READY = 20  #: seconds that a page may take on a busy machine


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    reason = fit.missing()
    if reason:
        fatal = os.environ.get("CI", "").lower() not in ("", "0", "false")
        (pytest.fail if fatal else pytest.skip)(f"no browser for the pages; lacks {reason}")
    driver = fit.start()
    yield driver
    driver.quit()


def opened(browser: Any, page: Path, hash: str = "") -> None:
    """Open a page and wait until it is ready."""
    browser.get("about:blank")
    browser.get(page.as_uri() + hash)
    end = time.monotonic() + READY
    while browser.execute_script("return document.documentElement.dataset.ready") != "yes":
        assert time.monotonic() < end, browser.get_log("browser")
        time.sleep(0.05)


def text(browser: Any, script: str) -> Any:
    return browser.execute_script(f"return {script}")


def press(browser: Any, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser).send_keys(*keys).perform()


def rows(browser: Any) -> dict[str, str]:
    """Name and value of every member on the page."""
    script = "Object.fromEntries([...document.querySelectorAll('#tables tr[data-name]')]"
    return dict(text(browser, f"{script}.map(row => [row.dataset.name, row.lastChild.textContent]))"))


@pytest.fixture(scope="module")
def stepper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "orizuru.html"
    path.write_bytes(step_page.written(shown("orizuru", "n8")).data)
    return path


def test_arrow_keys_move_from_event_to_event(browser: Any, stepper: Path) -> None:
    states = shown("orizuru", "n8").states
    opened(browser, stepper)
    right, left, home, end = "\ue014", "\ue012", "\ue011", "\ue010"
    for keys, event in ((right, 1), (right, 2), (left, 1), (end, len(states) - 1), (right, len(states) - 1), (home, 0)):
        press(browser, keys)
        assert text(browser, "document.getElementById('name').textContent") == states[event].event
        assert text(browser, "location.hash") == f"#event={event}"
        assert text(browser, "document.getElementById('slider').value") == str(event)
    press(browser, "\ue00f")  # page down
    assert text(browser, "location.hash") == "#event=10"
    assert browser.get_log("browser") == []


def test_registers_and_marks_match_the_event(browser: Any, stepper: Path) -> None:
    states = shown("orizuru", "n8").states
    for event in (0, 1, 12, len(states) - 1):
        opened(browser, stepper, f"#event={event}")
        found = rows(browser)
        assert set(found) == set(vars(states[0])) - {"event", "index"}
        assert found["node"].split(" was ")[0] == str(states[event].node)
        assert found["x"] == "3 7 1 5 2 6 9 4"
        assert found["p_mask"] == "".join(map(str, states[event].p_mask))
        marked = set(text(browser, "[...document.querySelectorAll('tr.new')].map(row => row.dataset.name)"))
        before, after = (vars(states[at]) for at in (max(event - 1, 0), event))
        assert marked == {name for name in after if name not in ("event", "index") and before[name] != after[name]}


def test_a_link_opens_its_event_with_its_drawing(browser: Any, stepper: Path) -> None:
    states = shown("orizuru", "n8").states
    opened(browser, stepper, "#event=12")
    assert text(browser, "document.getElementById('number').value") == "12"
    drawn = text(browser, "[...document.querySelectorAll('#picture svg text')].map(each => each.textContent)")
    assert drawn == texts(orizuru.UNIT.draw(orizuru.UNIT.config("n8"), states[12]))
    browser.execute_script("location.hash = '#event=3'")
    time.sleep(0.2)
    assert text(browser, "document.getElementById('name').textContent") == states[3].event
    opened(browser, stepper, "#event=9999")
    assert text(browser, "location.hash") == f"#event={len(states) - 1}"
    assert browser.get_log("browser") == []


def test_slider_buttons_and_names_work(browser: Any, stepper: Path) -> None:
    opened(browser, stepper)
    browser.execute_script("const s = document.getElementById('slider'); s.value = 7; s.oninput()")
    assert text(browser, "location.hash") == "#event=7"
    browser.execute_script("document.getElementById('next').click()")
    assert text(browser, "location.hash") == "#event=8"
    states = shown("orizuru", "n8").states
    browser.execute_script("document.querySelector('tr[data-name=q_mask] button').click()")  # its next change
    changed = next(at for at in range(9, len(states)) if states[at].q_mask != states[at - 1].q_mask)
    assert text(browser, "location.hash") == f"#event={changed}"
    press(browser, "c")
    assert set(rows(browser)) < set(vars(states[0]))


def test_stepper_fits_screen_and_palette(browser: Any, stepper: Path) -> None:
    narrow = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    colours = []
    for scheme in ("light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        opened(browser, stepper, "#event=5")
        assert text(browser, "document.documentElement.scrollWidth") <= 400
        page, drawn = (
            text(browser, f"getComputedStyle(document.querySelector('{where}')).{what}")
            for where, what in (("body", "backgroundColor"), ("#picture rect.page", "fill"))
        )
        assert page == drawn
        colours.append(page)
    assert colours[0] != colours[1]
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_ten_thousand_events_open_at_once(browser: Any, tmp_path: Path) -> None:
    given = shown("orizuru", "n8")
    states = (list(given.states) * (10_000 // len(given.states) + 1))[:10_000]
    page = tmp_path / "many.html"
    page.write_bytes(step_page.written(given._replace(states=states, operations=[0] * 10_000, total=10_000)).data)
    opened(browser, page, "#event=9999")
    seconds = text(browser, "Number(document.documentElement.dataset.opened)") / 1000
    assert text(browser, "document.getElementById('name').textContent") == states[-1].event
    assert seconds < 5  # below 1 on an idle machine


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Answers of a device that differs in row 300 and, in the right lane only, in row 700."""
    loaded, folder = golden.load(SET), tmp_path_factory.mktemp("pages")
    arrays = {name: array.copy() for name, array in loaded.arrays.items() if name.startswith("out.")}
    arrays["out.exponent"][300] ^= 1
    arrays["out.base_int"][700, 1] ^= 2
    np.savez(folder / "dut.npz", **arrays)
    (folder / "set.html").write_bytes(set_page.written(SET, folder / "dut.npz").data)
    return folder / "set.html"


def test_the_viewer_filters_rows(browser: Any, viewer: Path) -> None:
    loaded = golden.load(SET)
    opened(browser, viewer)
    count = "document.getElementById('range').textContent"
    assert text(browser, count).endswith(", 1032 rows")
    bit = loaded.manifest["flags"]["ILLEGAL"]["bit"]
    for name, value, wanted in (
        ("kind", "paper", sum(e["cases"] * e["rows"] for e in loaded.manifest["cases"] if e["kind"] == "paper")),
        ("flag", "ILLEGAL", int((loaded.arrays["flags"] >> bit & 1).sum())),
    ):
        browser.execute_script(f"const s = document.getElementById('{name}'); s.value = '{value}'; s.onchange()")
        assert text(browser, count).endswith(f", {wanted} rows")
        browser.execute_script(f"const s = document.getElementById('{name}'); s.value = ''; s.onchange()")
    browser.execute_script("document.getElementById('only').click()")
    shown_rows = "[...document.querySelectorAll('tr.row')].map(row => row.dataset.row)"
    assert text(browser, shown_rows) == ["300", "700"]
    assert browser.get_log("browser") == []


def test_link_opens_its_row_with_answer(browser: Any, viewer: Path) -> None:
    opened(browser, viewer, "#row=700")
    assert text(browser, "document.querySelector('tr.open').dataset.row") == "700"
    cells = text(
        browser, "[...document.querySelectorAll('td.inside tr[data-name=base_int] td')].map(td => td.innerText)"
    )
    want = golden.load(SET).arrays["out.base_int"][700]
    assert f"0x{want[1]:x}" in cells[0] and f"0x{want[1] ^ 2:x}" in cells[1]
    marked = text(browser, "[...document.querySelectorAll('td.inside b')].map(b => b.textContent.split(' ')[0])")
    assert marked == ["[1]", "[1]"]
    assert "2 of 1032 rows differ" in text(browser, "document.getElementById('said').textContent")
    press(browser, "\ue015")  # down
    assert text(browser, "location.hash") == "#row=701"
    browser.execute_script("document.getElementById('tofirst').click()")
    assert text(browser, "location.hash") == "#row=300"
    assert browser.get_log("browser") == []
