"""Pictures of a schedule with matplotlib, from the extra `plot`: a Gantt chart, and a roofline of all operations."""

from collections.abc import Callable, Sequence
from typing import Any

from refemu import plotting
from refemu.models.machine.schedule import Placed
from refemu.models.machine.system import MEMORY, System
from refemu.models.machine.trace import spans

LETTER = 0.0085  #: width of a letter, relative to that of the chart


def gantt(line: Sequence[Placed], system: System, title: str, form: str) -> bytes:
    """The schedule of a block: a row for every resource, a bar for every operation.

    Parameters
    ----------
    line : sequence of Placed
        Operations.
    system : System
        Machine.
    title : str
        Above the chart.
    form : str
        "svg" or "png".

    Returns
    -------
    bytes
        The file.
    """

    def draw(axes: Any) -> None:
        rows: list[str] = [MEMORY]
        for each in line:
            rows += [name for name in each.work.busy if name not in rows]
        end = max((each.end for each in line), default=1)
        colors = _colors(line)
        for each in line:
            for name, start, cycles in spans(each):
                at = rows.index(name)
                style = {"color": colors[each.work.kind], "zorder": 3 - cycles / end}  # the shorter in front
                axes.barh(at, cycles, left=start, height=0.72, edgecolor="white", lw=0.4, **style)
                if cycles > LETTER * len(each.work.name) * end:
                    axes.text(start + cycles / 2, at, each.work.name, ha="center", va="center", color="white", size=6.5)
        axes.set(yticks=range(len(rows)), yticklabels=rows, xlim=(0, end), xlabel=f"cycle at {_clock(system)}")
        axes.invert_yaxis()
        axes.set_title(title, size=9, loc="left")
        _legend(axes, colors)

    return _drawn(draw, (9.0, 3.4), form)


def roofline(line: Sequence[Placed], system: System, title: str, form: str) -> bytes:
    """Every operation with MACs on the machine's roofline: MACs a second over MACs a byte of the memory's port.

    Parameters and result are those of `gantt`.
    """

    def draw(axes: Any) -> None:
        peak, rate = system.peak * system.clock, float(system.rate * system.clock)
        points = [each for each in line if each.work.macs and each.cycles and each.work.bytes]
        at = [each.work.macs / _moved(each) for each in points]
        low, high = min([*at, peak / rate]) / 4, max([*at, peak / rate]) * 4
        axes.plot([low, peak / rate, high], [low * rate, peak, peak], color="#333333", lw=1.2)
        colors = _colors(points)
        named: dict[tuple[str, str], tuple[tuple[float, float], list[str]]] = {}  # by place, to a digit
        for x, each in zip(at, points, strict=True):
            y = each.work.macs / system.seconds(each.cycles)
            axes.scatter(x, y, color=colors[each.work.kind], s=18, zorder=3)
            point = named.setdefault((f"{x:.0e}", f"{y:.0e}"), ((x, y), []))
            point[1].append(each.work.name.partition(".")[0])
        for place, names in named.values():
            label = ", ".join(dict.fromkeys(names))
            axes.annotate(label, place, textcoords="offset points", xytext=(4, -8), size=6.5)
        axes.set(xscale="log", yscale="log", xlabel="MACs a byte of the external memory", ylabel="MACs a second")
        axes.set_title(f"{title}\nroofs: {rate / 1e9:.0f} GB/s, {peak / 1e12:.2f} T MACs/s", size=8.5, loc="left")
        axes.grid(True, which="major", color="#dddddd", lw=0.6)
        _legend(axes, colors)

    return _drawn(draw, (6.4, 4.2), form)


def _moved(each: Placed) -> int:
    moved = 0
    for size in each.work.bytes.values():
        moved += size
    return moved


def _clock(system: System) -> str:
    return f"{system.clock / 1e6:g} MHz"


def _colors(line: Sequence[Placed]) -> dict[str, str]:
    kinds = list(dict.fromkeys(each.work.kind for each in line))
    palette = (*plotting.COLORS, "#777777")
    return {kind: palette[number % len(palette)] for number, kind in enumerate(kinds)}


def _legend(axes: Any, colors: dict[str, str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=color, label=kind) for kind, color in colors.items()]
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7.5)


def _drawn(draw: Callable[[Any], None], inches: tuple[float, float], form: str) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(plotting.SETTINGS):
        figure = Figure(figsize=inches, layout="constrained")
        axes = figure.subplots()
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        draw(axes)
        return plotting.saved(figure, form)
