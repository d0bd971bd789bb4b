"""Figures as text, and tables in Markdown."""

SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def duration(seconds: float) -> str:
    """Return seconds with three digits and a unit."""
    return f"{seconds:.0f} s" if seconds >= 1000 else scaled(seconds, SECONDS)


def scaled(number: float, units: tuple[tuple[float, str], ...]) -> str:
    """Return a number with three digits in the largest unit that it reaches."""
    size, unit = next((pair for pair in units if number >= pair[0]), units[-1])
    return f"{number / size:.3g} {unit}"


def markdown_rows(head: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
