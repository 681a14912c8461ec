"""Compare digests of refemu's results on aarch64, emulated by QEMU, with those of this machine.

    python tools/arm64.py FOLDER [--tests]

Debian's packages of Python for arm64, and QEMU if the machine lacks it, are unpacked below FOLDER and cached there. If
they are not available, a message says so and the exit code is 0; it is 1 if a digest differs. --tests: run the tests of
tools/pythons.py too.
"""

import platform
import shutil
import sys
import time
from pathlib import Path

import debian
from bootstrap import NEWEST, OLDEST
from interpreters import Interpreter, native, unpacked, wheels, wrapped
from pythons import differences, digests, tests

PYTHONS = [f"python3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]
QEMU = ("qemu-aarch64-static", "qemu-aarch64")


def main() -> None:
    folder, start = Path(sys.argv[1]).absolute(), time.monotonic()
    if platform.machine() == "aarch64":
        print("arm64: this machine has that architecture; nothing to emulate")
        return
    try:
        emulated = interpreter(folder)
    except debian.Missing as error:
        print(f"arm64: skipped, not available here: {error}")
        return
    here = native(f"{sys.version_info[0]}.{sys.version_info[1]}", folder)
    wanted, found = digests(here, folder / "digests-here"), digests(emulated, folder / "digests-arm64")
    problems = differences(wanted, found) + (tests(emulated) if "--tests" in sys.argv else [])
    print(
        f"aarch64 ({emulated.origin}): "
        + ("; ".join(problems) or f"{len(found)} digests equal those of {platform.machine()}")
        + f"; {time.monotonic() - start:.0f} s"
    )
    sys.exit(1 if problems else 0)


def interpreter(folder: Path) -> Interpreter:
    """Python for aarch64, run by QEMU."""
    offered, package = debian.first_with(folder / "apt", "arm64", PYTHONS)
    root = unpacked(offered, [package, "libstdc++6"], folder / f"{package}-arm64")
    program = root / f"usr/bin/{package}"
    script = wrapped(program, [qemu(folder), "-L", root, "-0", '"$0"', program])
    return Interpreter(script, f"{offered.root.name} packages", wheels(package.removeprefix("python"), "arm64", folder))


def qemu(folder: Path) -> str:
    """QEMU's emulator for aarch64 programs: installed, or unpacked."""
    here = next(filter(None, map(shutil.which, QEMU)), None)
    if here:
        return here
    offered, package = debian.first_with(folder / "apt", debian.native(), ["qemu-user-static", "qemu-user"])
    root = unpacked(offered, [package], folder / "qemu")
    for other in (root / "usr/bin").iterdir():  # emulators of other processors: most of the package
        if other.name not in QEMU:
            other.unlink()
    return str(next(root / "usr/bin" / name for name in QEMU if (root / "usr/bin" / name).exists()))


if __name__ == "__main__":
    main()
