"""The roofline of decoding: MACs a second of each scheme, below what a copy's bandwidth allows for its bytes."""

from collections.abc import Mapping, Sequence
from typing import Any

from refemu import plotting


def drawn(found: Sequence[Mapping[str, Any]], form: str) -> bytes:
    """A picture of answers of `sizes.measure`, with float32 products as a hollow point for each. form: svg or png."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rate = max(each["copy_gb_s"] for each in found)
    with matplotlib.rc_context(plotting.SETTINGS):
        figure, axes = pyplot.subplots(figsize=(6.0, 3.8), layout="constrained")
        axes.plot([0.2, 2.5], [0.2 * rate, 2.5 * rate], color="#333333", lw=1.2)
        for number, each in enumerate(found):
            color, work = plotting.COLORS[number % len(plotting.COLORS)], each["macs"] / 1e9
            place = each["macs"] / each["bytes"], work / each["decode_s"]
            share = each["bytes"] / each["decode_s"] / each["copy_gb_s"] / 1e9
            label = f"{each['scheme'].partition(':')[0]}: {share:.0%}"
            axes.scatter(*place, color=color, s=24, zorder=3, label=label)
            axes.scatter(0.25, work / each["decode_blas_s"], facecolor="none", edgecolor=color, s=24)
        axes.set(xscale="log", yscale="log", xlabel="MACs a byte of weights", ylabel="G MACs a second")
        axes.set_title(f"Decoding, one token; the line is a copy, {rate:.0f} GB/s; hollow: float32 BLAS", loc="left")
        axes.grid(True, which="major", color="#dddddd", lw=0.6)
        axes.legend(title="share of the line", fontsize=7.5)
        data = plotting.saved(figure, form)
        pyplot.close(figure)
    return data
