"""Unpack Debian packages of any architecture into a folder without installing them; standard library only.

apt runs with its own root below the folder. It reads nothing of the machine's package system except the mirror and the
keys of its sources, and changes nothing. Needs no privileges.
"""

import platform
import re
import shutil
import subprocess
from pathlib import Path

SUITES = ("stable", "testing", "unstable")  # tried after the machine's own
SAME = {"x86_64": "amd64", "aarch64": "arm64"}
LIMIT = 600  # seconds per call of apt


class Missing(Exception):
    """Something that is not available here, and why."""


class Packages:
    """The packages of one suite of the mirror for one architecture."""

    def __init__(self, folder: Path, suite: str, architecture: str) -> None:
        self.root = folder / f"{suite}-{architecture}"
        lists = self.root / "var/lib/apt/lists"
        for part in (
            lists / "partial",
            self.root / "var/cache/apt/archives/partial",
            self.root / "var/lib/dpkg",
            self.root / "etc/apt/trusted.gpg.d",
        ):
            part.mkdir(parents=True, exist_ok=True)
        (self.root / "var/lib/dpkg/status").write_text("")
        (self.root / "etc/apt/sources.list").write_text(f"deb [arch={architecture}] {mirror()} {suite} main\n")
        for key in keys():
            shutil.copy(key, self.root / "etc/apt/trusted.gpg.d")
        self._options = [
            f"-oDir={self.root}",
            f"-oDir::State::status={self.root / 'var/lib/dpkg/status'}",
            f"-oAPT::Architecture={architecture}",
            f"-oAPT::Architectures={architecture}",
            "-oAPT::Sandbox::User=",
            "-oAcquire::Languages=none",
            "-oAcquire::Retries=2",
        ]
        if not any(lists.glob("*_Packages*")):
            self._apt("update")

    def version(self, package: str) -> str:
        """The available version, or ""."""
        shown = self._run("apt-cache", "policy", package)
        found = re.search(r"Candidate: (\S+)", shown)
        return found[1] if found and found[1] != "(none)" else ""

    def unpack(self, packages: list[str], into: Path) -> None:
        """Download packages with all their dependencies, and unpack them into the folder `into`."""
        self._apt("clean")
        self._apt("install", "--download-only", "--no-install-recommends", *packages)
        for name in ("bin", "lib", "lib64", "sbin"):  # links, as on an installed system
            (into / "usr" / name).mkdir(parents=True, exist_ok=True)
            if not (into / name).is_symlink():
                (into / name).symlink_to(f"usr/{name}")
        for file in sorted((self.root / "var/cache/apt/archives").glob("*.deb")):
            self._run("dpkg-deb", "--extract", str(file), str(into))
        self._apt("clean")

    def _apt(self, *arguments: str) -> None:
        self._run("apt-get", "-q", "-y", "-oAPT::Update::Error-Mode=any", *arguments)

    def _run(self, tool: str, *arguments: str) -> str:
        options = self._options if tool.startswith("apt") else []
        try:
            done = subprocess.run(
                [tool, *options, *arguments], check=False, capture_output=True, text=True, timeout=LIMIT
            )
        except subprocess.TimeoutExpired:
            raise Missing(f"{tool} {arguments[0]} of {self.root.name} took more than {LIMIT} s") from None
        if done.returncode:
            last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            raise Missing(f"{tool} {arguments[0]} of {self.root.name} failed: {''.join(last)}")
        return done.stdout


def first_with(folder: Path, architecture: str, packages: list[str]) -> tuple[Packages, str]:
    """The first suite with one of `packages`, and which: the machine's own, then newer ones. Missing if none."""
    reasons = []
    for suite in (release()["VERSION_CODENAME"], *SUITES):
        try:
            offered = Packages(folder, suite, architecture)
        except Missing as error:
            reasons.append(str(error))
            continue
        for package in packages:
            if offered.version(package):
                return offered, package
    raise Missing(
        f"no {' or '.join(packages)} among the packages of Debian for {architecture}"
        + "".join(f"; {reason}" for reason in reasons)
    )


def native() -> str:
    """Debian's name of this machine's architecture."""
    return SAME.get(platform.machine(), platform.machine())


def release() -> dict[str, str]:
    """Names of this machine's distribution; Missing unless it is based on Debian."""
    if not all(map(shutil.which, ("apt-get", "apt-cache", "dpkg-deb"))):
        raise Missing("this machine has no apt and dpkg")
    found = platform.freedesktop_os_release()
    if "VERSION_CODENAME" not in found:
        raise Missing(f"{found.get('PRETTY_NAME', 'this system')} names no release")
    return found


def mirror() -> str:
    """Address of the packages, from the machine's own sources."""
    form = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", form, "Created-By: Packages"],
        check=False,
        capture_output=True,
        text=True,
    ).stdout
    for line in listed.splitlines():
        address, *rest = line.split()
        if rest == [release()["VERSION_CODENAME"], "main"]:
            return address
    raise Missing("apt's sources name no mirror of this release")


def keys() -> list[Path]:
    """The keys that this distribution signs its packages with."""
    ring = Path(f"/usr/share/keyrings/{release()['ID']}-archive-keyring.gpg")
    return [*sorted(Path("/etc/apt/trusted.gpg.d").glob("*.gpg")), *([ring] if ring.exists() else [])]
