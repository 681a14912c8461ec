"""Plots with matplotlib, from the extra `plot`: SVG or PNG; equal figures give equal bytes in one version."""

import textwrap
from collections.abc import Sequence
from typing import Any

from refemu import plotting
from refemu.studies.output.figure import Figure, Panel, Series

WIDTH, HEIGHT, BAR = 4.6, 2.9, 0.21  #: inches of a panel, and of a bar
COLORS = (*plotting.COLORS, "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":")
STATED = "#777777"  #: colour of a paper's values
HATCHES = ("////", r"\\", "xxxx", "----", "||||")  #: hatches of bars with papers' values
SETTINGS: Any = {
    **plotting.SETTINGS,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "legend.fontsize": 7.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
}


def draw(figures: Sequence[Figure], form: str) -> bytes:
    """The figures as a column. form: "svg" or "png"."""
    import matplotlib

    with matplotlib.rc_context(SETTINGS):
        return plotting.saved(canvas(figures), form)


def canvas(figures: Sequence[Figure]) -> Any:
    """The figures as a column, as a figure of matplotlib."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    heights = [_height(figure) for figure in figures]
    columns = max(len(figure.panels) for figure in figures)
    with matplotlib.rc_context(SETTINGS):
        total = 0.0
        for height in heights:
            total += height
        size = (max(WIDTH * columns, 1.4 * WIDTH), total)
        whole = Canvas(figsize=size, layout="constrained", facecolor="white")
        parts = whole.subfigures(len(figures), 1, height_ratios=heights, squeeze=False)[:, 0]
        for part, figure, height in zip(parts, figures, heights, strict=True):
            _figure(part, figure, height, columns)
    return whole


def _height(figure: Figure) -> float:
    rows = max(_legend_rows(panel) for panel in figure.panels)
    return max(_axes_height(panel) for panel in figure.panels) + 0.85 + 0.16 * rows


def _axes_height(panel: Panel) -> float:
    """Inches of a panel without its legend."""
    return max(HEIGHT - 0.5, 0.9 + BAR * _bars(panel)) if panel.form == "bars" else HEIGHT


def _has_legend(panel: Panel) -> bool:
    return len(panel.series) > 1 or bool(panel.lines) or any(series.source for series in panel.series)


def _legend_labels(panel: Panel) -> list[str]:
    labels = [_label(series) for series in panel.series] + [line.label for line in panel.lines]
    return ["\n".join(textwrap.wrap(label, 46)) for label in labels]


def _legend_columns(panel: Panel) -> int:
    return 1 if any(len(label) > 24 for label in _legend_labels(panel)) else 2


def _legend_rows(panel: Panel) -> int:
    """Lines of text in a legend."""
    if not _has_legend(panel):
        return 0
    lines = len([line for label in _legend_labels(panel) for line in label.split("\n")])
    return -(-lines // _legend_columns(panel))


def _bars(panel: Panel) -> int:
    """Bars of a panel, with the space between their groups."""
    if panel.form != "bars":
        return 0
    names = list(dict.fromkeys(name for series in panel.series for name in series.x))
    return len([name for series in panel.series for name in series.x]) + len(names) // 2


def _figure(part: Any, figure: Figure, height: float, columns: int) -> None:
    width = round(max(WIDTH * columns, 1.4 * WIDTH) * 15.5)
    caption = "\n".join(textwrap.wrap(figure.caption, width))
    part.suptitle(f"{figure.title} {figure.place}".rstrip(), fontsize=10, fontweight="bold", x=0.01, ha="left")
    part.supxlabel(caption, fontsize=7, color="#444444", x=0.01, ha="left")
    axes = part.subplots(1, columns, squeeze=False)[0]
    for place, axis in enumerate(axes):
        if place < len(figure.panels):
            _panel(axis, figure.panels[place])
        else:
            axis.set_axis_off()  # keeps panels of all figures equally wide


def _panel(axis: Any, panel: Panel) -> None:
    axis.set_title(panel.title, loc="left")
    if panel.form == "bars":
        _bar_chart(axis, panel)
    else:
        for place, series in enumerate(panel.series):
            _curve(axis, series, series.form or panel.form, place)
        axis.set_xlabel(panel.x_label)
        axis.set_ylabel(panel.y_label)
    _scales(axis, panel)
    for line in panel.lines:
        (axis.axvline if panel.form == "bars" else axis.axhline)(
            line.value, color=STATED, linestyle="--", linewidth=1, label=line.label
        )
    if _has_legend(panel):
        axis.legend(
            *_handles(axis, panel),
            loc="upper left",
            bbox_to_anchor=(0, -0.58 / _axes_height(panel)),
            borderaxespad=0,
            ncols=_legend_columns(panel),
        )


def _handles(axis: Any, panel: Panel) -> tuple[list[Any], list[str]]:
    """Series in their order, then lines, with wrapped labels."""
    handles, labels = axis.get_legend_handles_labels()
    by_label = dict(zip(labels, handles, strict=True))
    order = [*(_label(series) for series in panel.series), *(line.label for line in panel.lines)]
    return [by_label[label] for label in order], _legend_labels(panel)


def _scales(axis: Any, panel: Panel) -> None:
    """Logarithmic axes have plain numbers, and more of them on short ranges."""
    from matplotlib.ticker import MaxNLocator

    if panel.log_x:
        axis.set_xscale("log")
    if panel.form == "bars" or panel.x_range:
        axis.set_xlim(panel.x_range or bar_range(panel))
    if panel.log_x:
        _plain_numbers(axis.xaxis, axis.get_xlim())
    elif panel.form != "bars" and all(float(x).is_integer() for series in panel.series for x in series.x):
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel.log_y:
        axis.set_yscale("log")
        _plain_numbers(axis.yaxis, axis.get_ylim())
    if panel.y_range:
        axis.set_ylim(panel.y_range)


def bar_range(panel: Panel) -> tuple[float, float]:
    """Limits of an axis with space for every bar, its error and its number, on both sides of the base."""
    ends = [panel.base, *(line.value for line in panel.lines)]
    for series in panel.series:
        errors = [error or 0.0 for error in series.error] or [0.0] * len(series.y)
        for value, error in zip(series.y, errors, strict=True):
            ends += [value + error, max(value - error, value / 2) if panel.log_x else value - error]
    if panel.log_x:
        ends = [end for end in ends if end > 0]  # a bar of 0 has no place on the axis
    low, high = min(ends), max(ends)
    if panel.log_x:
        room = max(high / low, 1.1) ** 0.16
        return (low if low == panel.base else low / room), high * room
    room = 0.14 * ((high - low) or 1.0)
    return (low if low == panel.base else low - room), high + room


def _plain_numbers(axis: Any, limits: tuple[float, float]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    plain = FuncFormatter(lambda value, _: short(value))
    axis.set_major_formatter(plain)
    narrow = limits[1] < 40 * limits[0]
    axis.set_minor_formatter(plain if narrow else NullFormatter())
    if narrow:
        axis.set_minor_locator(LogLocator(subs=(2, 5)))


def _curve(axis: Any, series: Series, form: str, place: int) -> None:
    stated = bool(series.source)
    color = STATED if stated else COLORS[place % len(COLORS)]
    style: dict[str, Any] = {"color": color, "label": _label(series)}
    if form == "steps":
        axis.step(series.x, series.y, where="post", linewidth=1.4, linestyle=DASHES[place % len(DASHES)], **style)
        return
    style |= {"marker": MARKERS[place % len(MARKERS)], "markersize": 4, "linewidth": 1.4}
    style["linestyle"] = "none" if form == "points" else DASHES[place % len(DASHES)]
    if form == "lines" and len(series.x) > 40:
        style["marker"] = ""
    if stated:
        style["markerfacecolor"] = "white"
    error = [each or 0.0 for each in series.error] or None
    axis.errorbar(series.x, series.y, yerr=error, capsize=2, elinewidth=1, **style)


def _bar_chart(axis: Any, panel: Panel) -> None:
    """Horizontal bars, the first name above; those of one name next to each other."""
    names = list(dict.fromkeys(name for series in panel.series for name in series.x))
    at, ticks = 0.0, []
    drawn: set[str] = set()
    looks = _looks(panel)
    for name in names:
        first = at
        for series, look in zip(panel.series, looks, strict=True):
            for index, each in enumerate(series.x):
                if each == name:
                    label = None if series.label in drawn else _label(series)
                    _bar(axis, panel.base, series, index, at, look | {"label": label})
                    drawn.add(series.label)
                    at += 1
        ticks.append((first + at - 1) / 2)
        at += 0.5
    axis.set_yticks(ticks, ["\n".join(textwrap.wrap(str(name), 26)) for name in names])
    axis.set_ylim(at - 0.5 - 0.4 + 0.5, -0.9)
    axis.axvline(panel.base, color="#222222", linewidth=0.8)
    axis.tick_params(axis="y", length=0)
    axis.grid(False, axis="y")
    axis.set_xlabel(panel.x_label)


def _looks(panel: Panel) -> list[dict[str, Any]]:
    """Colours for measured values and hatches for stated ones, series by series."""
    stated = [series for series in panel.series if series.source]
    looks: list[dict[str, Any]] = []
    for place, series in enumerate(panel.series):
        color = COLORS[place % len(COLORS)]
        looks.append({"color": color, "edgecolor": color})
        if series.source:
            hatch = HATCHES[stated.index(series) % len(HATCHES)]
            looks[-1] = {"color": "white", "edgecolor": STATED, "hatch": hatch}
    return looks


def _bar(axis: Any, base: float, series: Series, index: int, at: float, look: dict[str, Any]) -> None:
    """One bar from `base` to the value, with its error and its number."""
    value, error = series.y[index], (series.error[index] if series.error else None)
    axis.barh(
        at,
        value - base,
        left=base,
        height=0.86,
        linewidth=0.8,
        xerr=error,
        error_kw={"capsize": 2, "elinewidth": 1, "ecolor": "#222222"},
        **look,
    )
    end = value + (error or 0.0) if value >= base else value - (error or 0.0)
    axis.annotate(
        short(value),
        (end, at),
        xytext=(3 if value >= base else -3, 0),
        textcoords="offset points",
        va="center",
        ha="left" if value >= base else "right",
        fontsize=7,
    )


def _label(series: Series) -> str:
    return f"{series.label}, {series.source}" if series.source else series.label


def short(value: float) -> str:
    """A number with three digits."""
    if value and (abs(value) >= 1e6 or abs(value) < 0.001):
        return f"{value:.1e}".replace("e+0", "e").replace("e-0", "e-").replace(".0e", "e")
    return f"{value:.3g}" if abs(value) < 1000 else f"{float(f'{value:.3g}'):,.0f}"
