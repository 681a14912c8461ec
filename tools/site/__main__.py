"""Build the documentation site.

    python -m tools.site out/docs           # writes out/docs/html/index.html, which needs no server
    python -m tools.site out/docs --quick   # without the pages that step through units

These are errors, with exit code 1: warnings of Sphinx, broken links, pages above 200 kB that are not generated, and
elements that do not fit a window of 400 or 1,600 pixels.
"""

import contextlib
import io
import shutil
import subprocess
import sys
import time
from pathlib import Path

from refemu import units
from refemu.cli.main import main as refemu
from tools import api, tutorials
from tools.site import decisions, excerpts, fit, formats, links, text
from tools.site import units as unit_pages

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EVENTS = 20  #: of a stepper, at most
LARGEST = 200_000  #: bytes of a page that is not generated


def main() -> int:
    """Assemble, build and check the site; returns the exit code."""
    began = time.monotonic()
    out = Path(sys.argv[1]).resolve()
    source, html = out / "source", out / "html"
    for folder in (source, html):
        shutil.rmtree(folder, ignore_errors=True)
    assemble(source)
    if "--quick" not in sys.argv:
        steppers(source / "_static" / "step")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", "2", "-b", "html"]
    if subprocess.run(
        [*command, "-d", str(out / "doctrees"), str(source), str(html)], cwd=ROOT, check=False
    ).returncode:
        return 1
    excerpts.write(html)
    wrong = [
        *links.broken(html, missing="_static/step" if "--quick" in sys.argv else ""),
        *links.large(html, LARGEST),
        *fit.overflows(html),
    ]
    print("\n".join(wrong) or f"{html / 'index.html'}: {time.monotonic() - began:.0f} s, links and layout checked")
    return 1 if wrong else 0


def assemble(source: Path) -> None:
    """Write the pages that Sphinx reads: docs/ with links, and generated pages."""
    pages = {path.name: text.linked(path.read_text("utf-8")) for path in (ROOT / "docs").glob("*.md")}
    pages = {name: page for name, page in pages.items() if name not in text.PLACES}
    pages["glossary.md"] = text.glossary((ROOT / "docs" / "glossary.md").read_text("utf-8"))
    pages["measurements.md"] += f"\n{text.GENERATED}\n"  # benchmarks/ writes it
    for name in ("CHANGELOG", "CONTRIBUTING"):
        page = text.linked((ROOT / f"{name}.md").read_text("utf-8"))
        pages[f"{name.lower()}.md"] = page.replace("](docs/pictures/", "](pictures/")
    for name in tutorials.NAMES:
        pages |= text.pictures(text.linked(tutorials.page(name)), f"tutorials/{name}")
    pages |= {
        **decisions.pages(),
        **formats.pages(),
        **unit_pages.pages(),
        **reference(),
    }
    pages |= {"conf.py": (HERE / "conf.py").read_text(), "_static/site.css": (HERE / "site.css").read_text()}
    pages["scorer.js"] = (HERE / "scorer.js").read_text()
    shutil.copytree(ROOT / "docs" / "pictures", source / "pictures")
    for name, page in pages.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, "utf-8")


def reference() -> dict[str, str]:
    """The reference of the public packages and of the modules of arith; units have theirs on their own pages."""
    names = [name for name in api.packages() if not name.startswith("refemu.units.")]
    directive = "```{{eval-rst}}\n.. automodule:: {name}\n   :members:\n```\n\n" + text.GENERATED + "\n"
    written = {f"api/{name}.md": f"# {name}\n\n{directive.format(name=name)}" for name in names}
    tree = "\n".join(names)
    head = "# Python reference\n\nPublic names; those of units are on [their pages](../units/index.md).\n"
    return {"api/index.md": f"{head}\n```{{toctree}}\n:maxdepth: 1\n{tree}\n```\n", **written}


def steppers(folder: Path) -> None:
    """Write a page that steps through the example of each unit, with `refemu step --html`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in units.names():
        command = ["step", name, "--json", "--html", str(folder / f"{name}.html")]
        events, printed = len(list(_states(name))), io.StringIO()
        with contextlib.redirect_stdout(printed):
            failed = refemu([*command, "--events", f":{min(events, EVENTS)}"])
        if failed:
            raise SystemExit(f"refemu step {name} --html failed: {printed.getvalue()}")


def _states(name: str) -> list[object]:
    unit = units.find(name)
    config = next(iter(unit.configs))
    return list(unit.trace(unit.config(config), unit_pages.example(unit, config)[1]))


if __name__ == "__main__":
    sys.exit(main())
