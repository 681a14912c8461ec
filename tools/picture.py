"""Write docs/pictures: the drawing of a unit after an event in the README.

python tools/picture.py            # writes it
"""

from pathlib import Path

from refemu import draw
from refemu.units import orizuru

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "docs" / "pictures"


def pictures() -> dict[str, str]:
    """Drawings by file name: Orizuru at the first pop of the paper's example [kllm Fig. 7]."""
    unit = orizuru.UNIT
    cases = next(iter(unit.stimuli(unit.configs["n8"], "paper")))
    states = unit.trace(unit.configs["n8"], {port: array[:1] for port, array in cases.inputs.items()})
    popped = next(state for state in states if state.event == "pop_max")
    return {"orizuru.svg": draw.state(unit, "n8", popped)}


def main(place: Path = PLACE) -> None:
    """Write every drawing."""
    place.mkdir(exist_ok=True)
    for name, picture in pictures().items():
        (place / name).write_text(picture, "utf-8")


if __name__ == "__main__":
    main()
