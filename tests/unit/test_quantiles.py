"""Tails and quantiles against SciPy's."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import nnls

from schedlab.analyse import quantiles
from schedlab_sim.fit.disk import _least_squares_of_no_negative

FREEDOM = np.array([[0.4, 1.0, 2.5], [9.0, 300.0, 1e5]])


@pytest.mark.parametrize("level", [1e-12, 0.001, 0.025, 0.4, 0.5, 0.8])
def test_a_quantile_is_exceeded_with_its_probability(level):
    found = quantiles.t_quantile(level, FREEDOM)
    np.testing.assert_allclose(found, stats.t.isf(level, FREEDOM), rtol=1e-8, atol=1e-12)
    assert quantiles.t_quantile(level, 0.0) == np.inf
    assert quantiles.t_quantile(level, 3.0).shape == ()


def test_where_the_variance_is_known_t_is_normal():
    assert quantiles.t_quantile(0.025, np.inf) == pytest.approx(stats.norm.isf(0.025))
    assert quantiles.t_tail(2.0, np.inf) == pytest.approx(2 * stats.norm.sf(2.0))
    assert quantiles.f_tail(3, np.inf, [0.0, 2.0, np.inf]) == pytest.approx(
        stats.chi2.sf([0.0, 6.0, np.inf], 3)
    )


def test_tails_are_exact_far_out_too():
    t = np.array([0.0, 0.3, -4.0])
    np.testing.assert_allclose(
        quantiles.t_tail(t, FREEDOM), 2 * stats.t.sf(abs(t), FREEDOM), rtol=1e-8
    )
    ratios = np.array([0.0, 1.0, 40.0])
    np.testing.assert_allclose(
        quantiles.f_tail(3, FREEDOM, ratios), stats.f.sf(ratios, 3, FREEDOM), rtol=1e-8
    )
    z = np.array([[-3.0, 0.0], [5.0, 30.0]])
    np.testing.assert_allclose(quantiles.normal_tail(z), stats.norm.sf(z), rtol=1e-9)


@pytest.mark.parametrize(
    ("least", "trials"), [(0, 0), (0, 4), (1, 1), (3, 3), (2, 100), (60, 9000)]
)
def test_a_binomial_tail_includes_its_end(least, trials):
    wanted = stats.binom.sf(least - 1, trials, 0.01)
    assert quantiles.binomial_tail(least, trials, 0.01) == pytest.approx(wanted, rel=1e-8)


def test_factors_are_the_best_without_a_negative_one():
    rng = np.random.default_rng(5)
    for _ in range(40):
        matrix, wanted = rng.random((8, 3)) * [1, 1e3, 1e6], rng.normal(size=8)
        factors, rest = _least_squares_of_no_negative(matrix, wanted)
        best, least = nnls(matrix / matrix.max(0), wanted)
        np.testing.assert_allclose(factors, best / matrix.max(0), rtol=1e-6, atol=1e-12)
        assert rest == pytest.approx(least)
