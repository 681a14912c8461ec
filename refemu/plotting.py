"""Settings, colours and files of all plots; matplotlib is in the extra `plot`."""

import io
from pathlib import Path
from typing import Any

from refemu.arith.checks import Refused

FORMS = (".svg", ".png")
DPI = 144
#: colours that are distinct with any kind of colour vision (Okabe and Ito), without the palest
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
SETTINGS: Any = {"svg.hashsalt": "refemu", "font.family": "DejaVu Sans", "font.size": 8.5, "legend.frameon": False}


def require(path: str | Path) -> None:
    """Raise Refused for a file that is not .svg or .png, and without matplotlib, before any computation."""
    if Path(path).suffix not in FORMS:
        raise Refused(f"plot {path}: the name must end in .svg or .png, got {Path(path).suffix or 'no ending'!r}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise Refused(
            f"plot {path}: drawing needs the library matplotlib ({error}); run: pip install matplotlib"
        ) from None


def saved(figure: Any, form: str) -> bytes:
    """The file of a figure of matplotlib, equal for equal figures. form: "svg" or "png"."""
    target = io.BytesIO()
    nothing: dict[str, Any] = {"Date": None} if form == "svg" else {"Software": None}
    figure.savefig(target, format=form, dpi=DPI, metadata=nothing)
    return target.getvalue()
