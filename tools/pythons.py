"""Test refemu with every supported Python that this machine has or can unpack: equal digests, and some tests.

    python tools/pythons.py FOLDER [--digests]

Unpacked interpreters are cached in FOLDER. Names the interpreters that are not available; exit code 1 if one that ran
differs or fails. --digests: no tests.
"""

import json
import shutil
import sys
from pathlib import Path

import debian
from bootstrap import NEWEST, OLDEST
from interpreters import Interpreter, native

VERSIONS = [f"3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]
DIGESTS = Path(__file__).with_name("digests.py")
TESTS = [
    f"tests/{name}.py"
    for name in (
        "arith/test_fp16",
        "arith/kernels/test_kernels",
        "arith/jit/test_jit",
        "formats/olive/test_ovp",
        "formats/harmonia/test_bfp_tensor",
        "units/olive/test_ovp_decoder",
        "units/harmonia/test_bfp_pe",
        "golden/files/test_npz",
        "golden/files/test_store",
        "cli/test_main",
        "test_home",
    )
]


def main() -> None:
    folder, failed, missing = Path(sys.argv[1]).absolute(), [], []
    mine = f"{sys.version_info[0]}.{sys.version_info[1]}"
    wanted = digests(native(mine, folder), folder / f"digests-{mine}")
    if "failure" in wanted:
        sys.exit(f"Python {mine}: tools/digests.py failed\n{wanted['failure']}")
    for version in VERSIONS:
        try:
            interpreter = native(version, folder)
        except debian.Missing as error:
            missing.append(version)
            print(f"Python {version}: not available: {error}", flush=True)
            continue
        problems = differences(wanted, digests(interpreter, folder / f"digests-{version}")) if version != mine else []
        problems += [] if "--digests" in sys.argv else tests(interpreter)
        failed += [version] if problems else []
        print(f"Python {version} ({interpreter.origin}): " + ("; ".join(problems) or said(wanted)), flush=True)
    ran = [version for version in VERSIONS if version not in missing]
    print(f"ran {', '.join(ran)}; not available: {', '.join(missing) or 'none'}")
    sys.exit(f"differ or fail: {', '.join(failed)}" if failed else 0)


def digests(interpreter: Interpreter, folder: Path) -> dict[str, str]:
    """Output of tools/digests.py there, or why it fails; its files in `folder` are deleted before and after."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        done = interpreter.run(str(DIGESTS), str(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if done.returncode:
        return {"failure": f"{done.stdout[-2000:]}{done.stderr[-4000:]}"}
    return json.loads(done.stdout.splitlines()[-1])


def differences(wanted: dict[str, str], found: dict[str, str]) -> list[str]:
    """The digests that differ, as text."""
    failures = [outcome["failure"] for outcome in (wanted, found) if "failure" in outcome]
    if failures:
        return [f"tools/digests.py failed\n{failures[0]}"]
    names = sorted(wanted.keys() | found.keys())
    unequal = [name for name in names if wanted.get(name) != found.get(name)]
    return [f"{len(unequal)} of {len(names)} digests differ: {', '.join(unequal[:4])}"] if unequal else []


def said(wanted: dict[str, str]) -> str:
    """A line about equal digests."""
    return f"{len(wanted)} digests equal" + ("" if "--digests" in sys.argv else ", tests passed")


def tests(interpreter: Interpreter) -> list[str]:
    """Failures of the tests."""
    done = interpreter.run("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *TESTS)
    return [] if done.returncode == 0 else [f"tests fail\n{done.stdout[-4000:]}{done.stderr[-2000:]}"]


if __name__ == "__main__":
    main()
