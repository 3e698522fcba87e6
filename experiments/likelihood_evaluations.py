"""Likelihood evaluations per iteration against n: logistic regression, d = 10 (the paper's first figure)."""

from common import (
    KERNELS,
    STYLE,
    Setting,
    arguments,
    as_lines,
    label_powers,
    measurements,
    plot,
    powers,
    write_csv,
)

FIGURE = "likelihood_evaluations"


def main() -> None:
    """Measure, write the numbers, draw."""
    scale = arguments(__doc__)
    sizes = powers(10, 16, 2) if scale.quick else powers(7, 18)
    found = measurements(FIGURE, [Setting("logistic", 10, n, kernel) for kernel in KERNELS for n in sizes], scale)
    write_csv(FIGURE, scale, as_lines(found))

    def draw(axes) -> None:
        for kernel in KERNELS:
            if kernel == "Zig-Zag":
                continue  # has no iterations: its draws lie on a grid of times that may be any
            colour, marker = STYLE[kernel]
            values = [found[Setting("logistic", 10, n, kernel)].rows_per_draw for n in sizes]
            name = "tallbayes' default" if kernel == "tallbayes" else kernel
            axes.plot(sizes, values, color=colour, marker=marker, label=name)
        axes.set_yscale("log")
        label_powers(axes, sizes)
        axes.set_ylabel("likelihood evaluations per iteration")
        axes.set_title("Logistic regression, d = 10")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    plot(FIGURE, scale, draw, width=7.2)


if __name__ == "__main__":
    main()
