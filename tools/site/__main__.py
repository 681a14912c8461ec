"""Build the documentation site.

    python -m tools.site out/docs           # out/docs/html/index.html, readable from the file system
    python -m tools.site out/docs --quick   # without the steppers

Warnings of Sphinx, broken links and pages above 1 MB are errors: exit code 1.
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
from tools.site import decisions, formats, links, text
from tools.site import units as unit_pages

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EVENTS = 20  #: most events of a stepper
LARGEST = 1_000_000  #: most bytes of a page


def main() -> int:
    """Assemble, build and check the site; returns the exit code."""
    began = time.monotonic()
    out = Path(sys.argv[1])
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
    wrong = [*links.broken(html, missing="_static/step" if "--quick" in sys.argv else ""), *links.large(html, LARGEST)]
    print("\n".join(wrong) or f"{html / 'index.html'}: {time.monotonic() - began:.0f} s, every link works")
    return 1 if wrong else 0


def assemble(source: Path) -> None:
    """Write the pages for Sphinx: docs/ with links, and pages made from the package."""
    pages = {path.name: text.linked(path.read_text("utf-8")) for path in (ROOT / "docs").glob("*.md")}
    pages = {name: page for name, page in pages.items() if name not in text.PLACES}
    pages["glossary.md"] = text.glossary((ROOT / "docs" / "glossary.md").read_text("utf-8"))
    for name in ("CHANGELOG", "CONTRIBUTING"):
        pages[f"{name.lower()}.md"] = text.linked((ROOT / f"{name}.md").read_text("utf-8"))
    pages |= {f"tutorials/{name}.md": text.linked(tutorials.page(name)) for name in tutorials.NAMES}
    pages |= {
        **decisions.pages(),
        **formats.pages(),
        **unit_pages.pages(),
        **reference(),
    }
    pages |= {"conf.py": (HERE / "conf.py").read_text(), "_static/site.css": (HERE / "site.css").read_text()}
    shutil.copytree(ROOT / "docs" / "pictures", source / "pictures")
    for name, page in pages.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, "utf-8")


def reference() -> dict[str, str]:
    """The reference of the public packages and of arith's modules; units have theirs on their own pages."""
    names = [name for name in api.packages() if not name.startswith("refemu.units.")]
    directive = "```{{eval-rst}}\n.. automodule:: {name}\n   :members:\n```\n"
    written = {f"api/{name}.md": f"# {name}\n\n{directive.format(name=name)}" for name in names}
    tree = "\n".join(names)
    head = "# Python reference\n\nPublic names; those of units are on [their pages](../units/index.md).\n"
    return {"api/index.md": f"{head}\n```{{toctree}}\n:maxdepth: 1\n{tree}\n```\n", **written}


def steppers(folder: Path) -> None:
    """Write the page of every unit's example with the command itself."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in units.names():
        command = ["step", name, "--json", "--html", str(folder / f"{name}.html")]
        events, told = len(list(_states(name))), io.StringIO()
        with contextlib.redirect_stdout(told):
            failed = refemu([*command, "--events", f":{min(events, EVENTS)}"])
        if failed:
            raise SystemExit(f"refemu step {name} --html failed: {told.getvalue()}")


def _states(name: str) -> list[object]:
    unit = units.find(name)
    config = next(iter(unit.configs))
    return list(unit.trace(unit.config(config), unit_pages.example(unit, config)[1]))


if __name__ == "__main__":
    sys.exit(main())
