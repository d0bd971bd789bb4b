"""Figures as text, and tables in Markdown."""

UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


def duration(seconds: float) -> str:
    """Return seconds with three digits, in the largest unit that they reach."""
    unit = next((unit for unit, size in UNITS.items() if seconds >= size), "ns")
    return f"{seconds / UNITS[unit]:.3g} {unit}"


def markdown_rows(head: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
