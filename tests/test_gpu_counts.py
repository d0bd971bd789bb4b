"""The page of GPU operations has the counted numbers."""

import pytest

from gpu_counts import PAGE, Counter, written


@pytest.mark.only_on("cupy")
@pytest.mark.usefixtures("backend")
def test_the_page_is_what_is_counted(request):
    symbol = request.config.getoption("--counter")
    if symbol is None:
        pytest.skip("launches are counted with --counter")
    import cupy

    text = PAGE.read_text(encoding="utf-8")
    if f"With CuPy {cupy.__version__}:" not in text:
        pytest.skip(f"the page is of another version than {cupy.__version__}")
    assert written(Counter(symbol, cupy)).splitlines() == text.splitlines()
