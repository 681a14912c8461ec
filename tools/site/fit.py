"""Layout of a built site in headless Chromium: nothing wider than the window, nothing cut off."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WIDTHS = (400, 1600)  #: pixels of a window: a phone, a desk
#: what is beyond the right edge of the window or of a parent that hides it; wide tables and outputs scroll
_FIND = """
const width = document.documentElement.clientWidth, found = [];
const hides = element => {
  for (let each = element; each; each = each.parentElement) {
    const overflow = getComputedStyle(each).overflowX;
    const scrolls = overflow !== "hidden" && overflow !== "clip" && each.getBoundingClientRect().right <= width + 1;
    if (overflow !== "visible") return !scrolls;
  }
  return true;
};
if (document.documentElement.scrollWidth > width) found.push("the page");
for (const each of document.querySelectorAll("article *, .sidebar-tree *, .toc-tree *")) {
  const box = each.getBoundingClientRect();
  if (!box.width || !box.height || box.left >= width) continue; // a closed drawer is outside
  const cut = each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).overflowX === "hidden";
  if (cut || box.right > width + 1 && hides(each.parentElement))
    found.push(`<${each.tagName.toLowerCase()}> ${each.textContent.trim().slice(0, 40)}`);
}
return found.slice(0, 3);
"""


def missing() -> str:
    """What this machine lacks for a browser; "" if nothing."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium: pip install '.[browser]'"
    lacking = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
    return f"{' and '.join(lacking)}: make programs" if lacking else ""


def overflows(root: Path, browser: Any = None) -> Iterator[str]:
    """Yield elements of the pages in `root` that do not fit, at every width, by a browser or a new one.

    Without Chromium nothing is checked, which is said, and is an error where CI is set.
    """
    reason = "" if browser else missing()
    if reason:
        message = f"layout not checked, lacks {reason}"
        if os.environ.get("CI", "").lower() not in ("", "0", "false"):
            yield message
        print(message)
        return
    driver = browser or start()
    try:
        for width in WIDTHS:
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            for path in sorted(root.rglob("*.html")):
                if "_static" not in path.relative_to(root).parts:
                    driver.get(path.as_uri())
                    for what in driver.execute_script(_FIND):
                        yield f"{path.relative_to(root)}: at {width} pixels too wide: {' '.join(what.split())}"
    finally:
        if browser is None:
            driver.quit()


def start() -> Any:
    """Start headless Chromium."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
