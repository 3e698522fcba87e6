"""Unknown scales without an end: rows that are fitted exactly let their scale go to 0, and are refused if that wins."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import tallbayes as tb
from tallbayes.models.endless_scales import rise_of_density
from tallbayes.setup.setup import setup_of

F, P = tb.families, tb.priors


def mode_of(model):
    return setup_of(model, threads=1).mode.theta


def taken(model):
    """Whether the search for a mode finds one."""
    try:
        return bool(np.all(np.isfinite(mode_of(model))))
    except tb.errors.NoModeError:
        return False


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(8)
    X = np.column_stack([np.ones(200), rng.standard_normal(200)])
    return X, X.sum(axis=1) + rng.standard_normal(200)


def in_blocks(X, y, tmp_path):
    path = tmp_path / "rows.parquet"
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_parquet(path)
    return path


# -- one scale --


@pytest.mark.parametrize("df", [0.5, 1.0, 4.0])
def test_equal_responses_are_refused_from_where_the_density_has_no_end(data, df):
    """The density of k equal responses of n, at a scale s, is s^(-k + df (n - k) + 1): refused if that rises."""
    X, y = data
    rows = np.arange(200)
    least = int(np.floor((df * 200 + 1) / (1 + df))) + 1
    assert rise_of_density(least, 200.0, df) > 0.0 >= rise_of_density(least - 1, 200.0, df)
    for value in (0.0, 3.3):
        tied = np.where(rows % 200 < least, value, y)
        with pytest.raises(
            tb.errors.NoModeError, match=rf"{least} of 200 .* response {value:g}.*df={df:g}.*LogNormal"
        ):
            mode_of(tb.Regression(X, tied, F.StudentT(df), P.Flat()))
    # A prior that keeps the scale from 0 ends it, and responses that no coefficients fit do not begin it.
    assert taken(tb.Regression(X, tied, F.StudentT(df, scale=P.LogNormal(0, 1))))
    assert taken(tb.Regression(X[:, 1:], tied, F.StudentT(df)))
    assert taken(tb.Regression(X, tied, F.Gaussian()))


def test_the_density_rises_as_it_is_said_to():
    """By the difference of logarithms at two small scales, with a prior that is finite at 0."""
    left = np.concatenate([np.zeros(30), np.linspace(0.5, 3.0, 12)])

    def log_density(t, df):
        scale = np.exp(-t)
        return np.sum(stats.t(df, scale=scale).logpdf(left)) + stats.halfnorm(scale=2.0).logpdf(scale) - t

    for df in (0.5, 2.0, 4.0):
        rise = log_density(13.0, df) - log_density(12.0, df)
        assert rise_of_density(30.0, 42.0, df) == pytest.approx(rise, abs=1e-6)


def test_one_response_fewer_is_no_reason_to_refuse(data):
    X, y = data
    tied = np.where(np.arange(200) < 67, 0.0, y)  # 67 - 133 / 2 - 1 < 0 < 68 - 132 / 2 - 1
    assert taken(tb.Regression(X, tied, F.StudentT(0.5)))
    tied[67] = 0.0
    with pytest.raises(tb.errors.NoModeError, match="68 of 200"):
        mode_of(tb.Regression(X, tied, F.StudentT(0.5)))


def test_offsets_and_weights_are_part_of_it(data):
    X, y = data
    tied, offset = np.where(np.arange(200) < 90, 0.0, y), np.linspace(-1.0, 1.0, 200)
    assert taken(
        tb.Regression(X, tied, F.StudentT(0.5), offset=offset)
    )  # what is left of equal responses is not equal
    assert taken(tb.Regression(X, tied, F.StudentT(0.5), weights=np.where(np.arange(200) < 90, 0.5, 1.0)))
    weights = 1.0 * ((np.arange(200) < 30) | (np.arange(200) >= 180))
    with pytest.raises(tb.errors.NoModeError, match="30 of 50"):
        mode_of(tb.Regression(X, tied, F.StudentT(0.5), weights=weights))


def test_rows_from_a_file_are_counted_in_a_pass(data, tmp_path):
    X, y = data
    path = in_blocks(X, np.where(np.arange(200) < 90, 0.0, y), tmp_path)
    with pytest.raises(tb.errors.NoModeError, match="90 of 200"):
        mode_of(tb.Regression(path, "y", F.StudentT(0.5), design=["a", "b"]))


def test_a_search_that_ends_at_an_exact_fit_says_so(data):
    """Nothing is equal here, yet 190 rows lie on a line, or 19 columns can fit as many of 21 rows."""
    X, y = data
    line = np.where(np.arange(200) < 10, y, X.sum(axis=1))
    with pytest.raises(tb.errors.NoModeError, match=r"2 columns can fit rows with a weight of 190 of 200 exactly"):
        mode_of(tb.Regression(X, line, F.StudentT(4)))
    rng = np.random.default_rng(1)
    wide = rng.standard_normal((21, 19))
    with pytest.raises(tb.errors.NoModeError, match=r"19 columns can fit .* 19 of 21 exactly.*Use fewer columns"):
        mode_of(tb.Regression(wide, wide.sum(axis=1) + rng.standard_normal(21), F.StudentT(4)))


@pytest.mark.parametrize("family", [F.Gaussian(), F.StudentT(4), F.Gamma()], ids=lambda family: family.title)
def test_rows_without_a_weight_do_not_count(data, family):
    X, y = data
    response = np.exp(y) if family.title == "Gamma" else y
    with pytest.raises(tb.errors.InputError, match=r"2 rows with a weight .*\(of 200\) and 2 columns"):
        tb.Regression(X, response, family, weights=1.0 * (np.arange(200) < 2))
    assert tb.Regression(X, response, family, weights=1.0 * (np.arange(200) < 4)).profile.rows == 4


# -- a scale with columns of its own --


def scaled(X, y, Z, family=F.Gaussian, **more):
    prior = more.pop("prior", P.Flat())
    given = (4.0,) if family is F.StudentT else ()
    return tb.Regression(X, y, family(*given, scale=P.Flat()), prior, scale_design=Z, **more)


@pytest.mark.parametrize("family", [F.Gaussian, F.StudentT, F.PseudoHuber])
@pytest.mark.parametrize("prior", [P.Flat(), P.Normal(0, 2)], ids=["flat", "normal"])
def test_a_scale_of_rows_that_are_fitted_is_refused(data, family, prior):
    """Two columns fit two rows, whose scale then has a density that does not fall: three rows they do not."""
    X, y = data
    for rows, refused in ((1, True), (2, True), (3, False)):
        Z = np.column_stack([np.ones(200), np.arange(200) >= 200 - rows])
        model = scaled(X, y, Z, family, prior=prior)
        if not refused:
            assert taken(model)
            continue
        with pytest.raises(
            tb.errors.NoModeError, match=rf"{rows} rows? ha(s|ve) a scale .*'scale_beta\[z1\]', and"
        ):
            mode_of(model)
        default = tb.Regression(X, y, family(*((4.0,) if family is F.StudentT else ())), prior, scale_design=Z)
        assert taken(default)


CODINGS = {
    "a column for each": np.eye(4),
    "beside the first": np.column_stack([np.ones(4), np.eye(4)[:, 1:]]),
    "sums": np.column_stack([np.ones(4), np.vstack([-np.ones(3), np.eye(3)])]),
    "polynomials": np.vander(np.arange(4.0), increasing=True),
}


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("rare", range(4))
def test_a_level_of_few_rows_is_found_however_levels_are_coded(data, coding, rare):
    X, y = data
    level = np.where(np.arange(200) < 2, rare, (rare + 1 + np.arange(200) % 3) % 4)
    with pytest.raises(tb.errors.NoModeError, match="2 rows have a scale of their own"):
        mode_of(scaled(X, y, CODINGS[coding][level]))
    level[5] = rare
    assert taken(scaled(X, y, CODINGS[coding][level]))


def test_levels_with_a_mean_of_their_own_count_what_the_columns_fit(data):
    """A level with a mean of its own has one coefficient: one row, or any number of equal ones, have no scale."""
    _, y = data
    level = np.arange(200) % 10
    G = 1.0 * (level[:, None] == np.arange(10))
    assert taken(scaled(G, y, G))
    with pytest.raises(tb.errors.NoModeError, match=r"20 rows .*'scale_beta\[z7\]', and"):
        mode_of(scaled(G, np.where(level == 7, 2.5, y), G))
    lone = np.where(level == 7, 6, level)
    lone[3] = 7
    G = 1.0 * (lone[:, None] == np.arange(10))
    with pytest.raises(tb.errors.NoModeError, match="1 row has a scale of its own"):
        mode_of(scaled(G, y, G))


def test_weights_count(data):
    """Rows of half a weight rise by half only: then what the coefficients lose wins."""
    X, y = data
    Z = np.column_stack([np.ones(200), np.arange(200) < 2])
    assert taken(scaled(X, y, Z, weights=np.where(np.arange(200) < 2, 0.995, 1.0)))
    with pytest.raises(tb.errors.NoModeError, match="2 rows"):
        mode_of(scaled(X, y, Z, weights=np.where(np.arange(200) < 2, 1.005, 1.0)))
    Z = np.column_stack([np.ones(200), np.arange(200) < 5])
    with pytest.raises(tb.errors.NoModeError, match="2 rows"):
        mode_of(scaled(X, y, Z, weights=1.0 * (np.arange(200) > 2)))


def test_columns_that_vary_from_row_to_row_are_taken(data):
    X, y = data
    assert taken(scaled(X, y, X))
    assert taken(scaled(X[:20], y[:20], X[:20]))


def test_scales_of_a_file_are_checked_in_passes(data, tmp_path):
    X, y = data
    path = tmp_path / "rows.parquet"
    pd.DataFrame(
        {"a": X[:, 0], "b": X[:, 1], "y": y, "one": 1.0, "rare": 1.0 * (np.arange(200) == 150)}
    ).to_parquet(path)
    model = tb.Regression(
        path, "y", F.Gaussian(scale=P.Flat()), P.Flat(), design=["a", "b"], scale_design=["one", "rare"]
    )
    with pytest.raises(tb.errors.NoModeError, match=r"1 row has .*'scale_beta\[rare\]'"):
        mode_of(model)


# -- classes --


@pytest.mark.parametrize(
    ("family", "named"),
    [(F.Categorical(3), "most along '[12]: x1'"), (F.Ordinal(3, cuts=P.Flat()), "most along 'x0'")],
)
def test_separated_classes_name_their_parameters(data, family, named):
    X, _ = data
    y = np.digitize(X[:, 1], [-0.5, 0.5]).astype(float)
    with pytest.raises(tb.errors.NoModeError, match=rf"{named}.*separated by a column, or a class has no rows"):
        mode_of(tb.Regression(X if family.title == "Categorical" else X[:, 1:], y, family, P.Flat()))


def test_a_class_without_rows_names_its_parameters(data):
    X, _ = data
    y = (np.arange(200) % 3).astype(float)
    with pytest.raises(tb.errors.NoModeError, match="most along '3: x0'"):
        mode_of(tb.Regression(X, y, F.Categorical(4), P.Flat()))


def test_a_scale_that_its_prior_holds_is_no_reason(data):
    """A long search asks on its way: under a prior that vanishes at 0 an exact fit has a mode all the same."""
    X, _ = data
    y, fit = X.sum(axis=1), np.array([1.0, 1.0, -20.0])
    for family, endless in ((F.StudentT(4), True), (F.StudentT(4, scale=P.LogNormal(0, 1)), False)):
        assert bool(tb.Regression(X, y, family).reason_without_mode(fit)) == endless
