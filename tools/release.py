"""Build and check everything of a release, offline, and say what a publication still needs.

    python -m tools.release FOLDER

FOLDER gets the wheel, the source archive, an SBOM, SHA256SUMS and smoke.txt. Exit code 1 at the first check that fails.
"""

import configparser
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import refemu
from refemu.cli.help.examples import EXAMPLES, Example

ROOT = Path(__file__).resolve().parent.parent
UMASKS = (0o022, 0o077)  #: of the two checkouts
TIMEOUT = shutil.which("timeout") or "timeout"
LIMIT = 300  #: seconds of one example


def main(out: Path) -> int:
    """Build, compare, install, try and list; returns the exit code."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    require_one_version()
    packages = built_twice(out)
    python = installed(out / "environment", packages[0])
    failed = smoke(python, out)
    sbom = bill_of_materials(out / "sbom.cdx.json")
    sets = sorted((ROOT / "vectors").glob("*/*"))
    sums = [(path, str(path.relative_to(ROOT if path in sets else out))) for path in (*packages, sbom, *sets)]
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}\n" for path, name in sums]
    (out / "SHA256SUMS").write_text("".join(lines))
    print(f"{out / 'SHA256SUMS'}: packages, SBOM and {len(sets)} files of sets")
    print("\n".join(["a publication still needs:", *(f"  {each}" for each in missing())]))
    return 1 if failed else 0


def require_one_version() -> None:
    """The version of the package is that of the citation and of the newest entry of the changelog."""
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    for name, found in (("CITATION.cff", cited), ("CHANGELOG.md", newest)):
        if found is None or found[1] != refemu.__version__:
            raise SystemExit(f"{name}: version must be {refemu.__version__}, got {found and found[1]}")


def built_twice(out: Path) -> list[Path]:
    """Wheel and source archive, equal from two checkouts with two umasks, the second a day later."""
    made: list[dict[str, bytes]] = []
    for number, umask in enumerate(UMASKS):
        checkout = out / f"checkout{number}"
        command = f"umask {umask:03o}; git clone -q {shlex.quote(str(ROOT))} {shlex.quote(str(checkout))}"
        subprocess.run(["sh", "-c", command], check=True)
        day = str(int(time.time()) + 86400 * number)
        environment = {**os.environ, "SOURCE_DATE_EPOCH": day, "PYTHONPATH": str(checkout)}
        build = [sys.executable, "-m", "build", "-q", "--no-isolation", "-o", str(checkout / "built"), str(checkout)]
        subprocess.run(build, check=True, env=environment, umask=umask, stdout=subprocess.DEVNULL)
        made.append({path.name: path.read_bytes() for path in (checkout / "built").iterdir()})
        shutil.rmtree(checkout)
    unlike = [name for name in made[0] if made[0][name] != made[1].get(name)]
    if unlike or len(made[0]) != 2:
        raise SystemExit(f"two checkouts do not give the same bytes: {', '.join(unlike or made[0])}")
    for name, content in made[0].items():
        (out / name).write_bytes(content)
        print(f"{out / name}: {len(content)} bytes, equal from two checkouts")
    return sorted((out / name for name in made[0]), key=lambda path: path.suffix != ".whl")


def installed(folder: Path, wheel: Path) -> Path:
    """Python of a new environment with the wheel and, from this environment, what it requires."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    # before the other packages, among which pip would find an editable refemu
    pip = [str(python), "-I", "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    subprocess.run([*pip, str(wheel)], check=True)
    where = [str(python), "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.run(where, check=True, capture_output=True, text=True).stdout.strip())
    (packages / "required.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def smoke(python: Path, out: Path) -> list[str]:
    """Run the examples of every help with an installed wheel and no compiler on PATH; return those that fail."""
    from tests.cli.help import standins

    files = out / "files"
    files.mkdir()
    standins.write(files)
    examples = [
        (example, out / "tries" / str(at))
        for at, example in enumerate(each for all in EXAMPLES.values() for each in all)
    ]
    for _, folder in examples:
        shutil.copytree(files, folder)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda each: tried(python, *each), examples))
    shutil.rmtree(out / "tries")
    (out / "smoke.txt").write_text("\n".join(results) + "\n")
    failed = [line for line in results if line.startswith("FAIL")]
    print(
        "\n".join([*failed, f"{out / 'smoke.txt'}: {len(results)} examples, {len(failed)} failed, no compiler on PATH"])
    )
    return failed


def tried(python: Path, example: Example, folder: Path) -> str:
    """A line of the smoke table."""
    if example.needs:
        return f"skip  {'':>6}  {example.line} (needs the weights of {example.needs})"
    variables = {"PATH": str(python.parent), "HOME": str(python.parents[1]), "REFEMU_HOME": str(folder / "home")}
    began = time.monotonic()
    ran = subprocess.run(
        ["/bin/sh", "-c", f"{TIMEOUT} {LIMIT} {example.line}"], cwd=folder, env=variables, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    good = ran.returncode == example.code
    said = "" if good else f": exit {ran.returncode}: {(ran.stderr or ran.stdout).strip()[-200:]!r}"
    return f"{'ok   ' if good else 'FAIL '} {time.monotonic() - began:6.1f}  {example.line}{said}"


def bill_of_materials(path: Path) -> Path:
    """Components of this environment, in the form of CycloneDX; says which name no licence."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "-o", str(path)]
    subprocess.run([*command, sys.executable], check=True, capture_output=True)
    components = json.loads(path.read_text())["components"]
    without = sorted(each["name"] for each in components if not each.get("licenses"))
    print(f"{path}: {len(components)} components; without a licence in their metadata: {', '.join(without) or 'none'}")
    return path


def missing() -> list[str]:
    """What only a person can give."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    newest = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    needs = []
    if newest and "unreleased" in newest[1]:
        needs.append("a date in CHANGELOG.md in place of (unreleased)")
    if "project_urls" not in config["metadata"]:
        needs.append("a public host: project_urls in setup.cfg, url in CITATION.cff, an address in SECURITY.md")
    return [*needs, "the name of a package index and its token: twine upload", "a key: gpg --detach-sign SHA256SUMS"]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
