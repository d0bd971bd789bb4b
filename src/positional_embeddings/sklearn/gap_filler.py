"""Fill the gaps of columns from what was measured around them."""

from collections.abc import Sequence
from typing import Any

from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from positional_embeddings._core import checks
from positional_embeddings._core.errors import shown, wrong_type, wrong_value
from positional_embeddings._core.namespace import HostArray, host
from positional_embeddings.sklearn.columns import check_times, with_days
from positional_embeddings.sklearn.kernels import Kernel
from positional_embeddings.sklearn.regressor import AttentionRegressor


class GapFiller(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fill missing values of columns by a regression on where the rows are.

    Parameters
    ----------
    estimator : regressor, optional
        Copied for each column with gaps; an `AttentionRegressor` of default options if None. That
        one looks at near neighbours, and suits gaps of some rows; for longer ones pass one whose
        kernel is as wide as the gaps, or a sum of kernels with a season.
    positions : sequence of int or str, or "index", optional
        Columns that say where the rows are, such as times or places; they have no gaps, and are
        returned, times as days since 1970-01-01 UTC. "index" is the index of a pandas table. If
        None, rows follow one another at equal steps, and row i of any table is at i.

    Attributes
    ----------
    estimators_ : list of regressor or None
        The fitted estimator of each column; None for those of positions.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array, shape (n_features_in_,)
        Names of the columns, where they have names.

    Raises
    ------
    TypeError, ValueError
        In `fit` and `transform`, if `positions` are not columns of the table, or hold gaps; in
        `fit`, if nothing at all was measured in a column.

    Examples
    --------
    >>> import numpy as np
    >>> from positional_embeddings.sklearn import GapFiller
    >>> filled = GapFiller().fit_transform([[0.0], [1.0], [np.nan], [3.0], [4.0]])
    >>> filled.round(3).T
    array([[0., 1., 2., 3., 4.]])
    """

    def __init__(
        self, estimator: Any = None, *, positions: Sequence[int] | Sequence[str] | str | None = None
    ) -> None:
        self.estimator = estimator
        self.positions = positions

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None) -> "GapFiller":  # noqa: ARG002 - as pipelines pass it
        """Fit a regressor to what is there, for each column.

        Parameters
        ----------
        X : table, shape (rows, columns)
            Numbers, NaN where nothing was measured; columns of positions may hold times.
        y : None
            Ignored.

        Returns
        -------
        GapFiller
            Itself.
        """
        self._is_time: dict[str, list[bool]] = {}
        index = self._index(X)
        values = self._values(X, reset=True)
        at = self._positions_at(values.shape[1])
        places = self._places(values, index, at)
        estimator = AttentionRegressor() if self.estimator is None else self.estimator
        if isinstance(estimator, type) or not hasattr(estimator, "fit"):
            hint = " Pass AttentionRegressor(kernel)." if isinstance(estimator, Kernel) else ""
            raise wrong_type("estimator", "be a regressor", shown(estimator), hint)
        self.estimators_: list[Any] = []
        for j in range(values.shape[1]):
            if j in at:
                self.estimators_.append(None)
                continue
            seen = ~host.isnan(values[:, j])
            if not seen.any():
                name = getattr(self, "feature_names_in_", [f"x{i}" for i in range(j + 1)])[j]
                raise wrong_value("X", "have a measurement in each column", f"none in {name}")
            self.estimators_.append(clone(estimator).fit(places[seen, :], values[seen, j]))
        return self

    def transform(self, X: Any) -> Any:
        """Return the table with its gaps filled.

        Parameters
        ----------
        X : table, shape (rows, columns)
            As in `fit`; rows may be elsewhere.

        Returns
        -------
        array, shape (rows, columns)
            What was measured, as it is, and what the regressor says where nothing was.
        """
        check_is_fitted(self)
        index = self._index(X)
        filled = self._values(X, reset=False)
        places = self._places(filled, index, self._positions_at(filled.shape[1]))
        filled = host.array(filled)
        for j, estimator in enumerate(self.estimators_):
            gap = host.isnan(filled[:, j])
            if gap.any():
                filled[gap, j] = estimator.predict(places[gap, :])
        return filled

    def _index(self, X: Any) -> Any:
        """Return the index of the table as days or numbers, None if it is not asked for."""
        if not (isinstance(self.positions, str) and self.positions == "index"):
            return None
        if not hasattr(X, "iloc"):
            raise wrong_type("X", 'be a pandas table if `positions` is "index"', shown(X))
        rows = self._with_days("X.index", X.index.to_frame())
        return check_array(rows, dtype=host.float64, input_name="X.index")[:, 0]

    def _values(self, X: Any, *, reset: bool) -> HostArray:
        values: HostArray = validate_data(
            self,
            self._with_days("X", X),
            reset=reset,
            dtype=[host.float64, host.float32],
            ensure_all_finite="allow-nan",
        )
        return values

    def _with_days(self, name: str, table: Any) -> Any:
        """Return a table with times as days, where `fit` saw times, too."""
        table, is_time = with_days(table)
        check_times(name, is_time, self._is_time.setdefault(name, is_time))
        return table

    def _positions_at(self, n_columns: int) -> list[int]:
        """Return the columns of positions as numbers."""
        if self.positions is None or (
            isinstance(self.positions, str) and self.positions == "index"
        ):
            return []
        if not isinstance(self.positions, list | tuple) or not self.positions:
            what = 'be a list of columns, "index" or None'
            raise wrong_value("positions", what, shown(self.positions))
        names = list(getattr(self, "feature_names_in_", ()))
        found = []
        for i, column in enumerate(self.positions):
            name = f"positions[{i}]"
            if isinstance(column, str):
                if column not in names:
                    raise wrong_value(name, f"be one of {names}", shown(column))
                found.append(names.index(column))
            else:
                found.append(checks.integer(name, column))
                if not 0 <= found[-1] < n_columns:
                    raise wrong_value(name, f"be 0 to {n_columns - 1}", column)
        return found

    def _places(self, values: HostArray, index: Any, at: list[int]) -> HostArray:
        """Return where the rows are, (rows, coordinates)."""
        if index is not None:
            places = index[:, None]
        elif self.positions is None:
            places = host.arange(values.shape[0], dtype=host.float64)[:, None]
        else:
            places = host.astype(values[:, at], host.float64)
        if host.isnan(places).any():
            raise wrong_value("positions", "have no gaps", "NaN among them")
        checked: HostArray = places
        return checked
