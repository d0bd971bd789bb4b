"""Which of two names is the latitude."""

import pytest

from positional_embeddings.encodings.spans import order_of_places


@pytest.mark.parametrize(
    ("latitude", "longitude"),
    [
        ("lat", "lon"),
        ("Latitude", "Longitude"),
        ("lats", "lons"),
        ("XLAT", "XLONG"),
        ("rlat", "rlon"),
        ("latc", "lonc"),
        ("glat", "glon"),
        ("latCell", "lonCell"),
        ("GEOLAT", "GEOLON"),
        ("TLAT", "TLONG"),
        ("site_lat", "site_lng"),
        ("y degrees_north", "x degrees_east"),
    ],
)
def test_latitude_and_longitude_are_told_by_name(latitude, longitude):
    assert tuple(order_of_places("X", (latitude, longitude))) == (0, 1)
    assert tuple(order_of_places("X", (longitude, latitude))) == (1, 0)


@pytest.mark.parametrize("names", [("a", "b"), ("flat", "salon"), ("plate", "clone")])
def test_other_names_keep_their_order(names):
    assert tuple(order_of_places("X", names)) == (0, 1)
