"""Firefly and Zig-Zag in plain NumPy, on the random numbers of the compiled kernels, and measures of agreement."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
from scipy import stats

import oracle
from oracle import Real
from problems import CASES, Batches, beside_the_mode


class Side(NamedTuple):
    """A kernel of the package, prepared beside the mode, and the oracle's view of the same problem."""

    prepared: object
    problem: oracle.Problem


def side(case, kernel, by=0.4):
    """Prepare a kernel `by` standard deviations beside the mode, so that gradients matter."""
    model = CASES[case].model
    prepared = kernel.prepare(model, setup=beside_the_mode(model, by))
    return Side(prepared, CASES[case].problem(prepared.metric.centre))


def zigzag_in_batches(prepared, size=7, seed=0):
    """Return the same process with a supply of few rows at a time, which says what rows it drew."""
    supply = Batches(prepared, size, seed)
    return dataclasses.replace(prepared, supply=supply, target=prepared.target._replace(rows=supply.rows))


def by_table(target):
    """Return a function that draws a row as the compiled alias table does."""
    keep, alias = target.rows.table[:, 0], target.rows.table[:, 1]

    def draw(rng):
        i = oracle.uniform_index(keep.size, rng)
        return i if rng.random() < keep[i] else int(alias[i])

    return draw


def lower_bounds(problem, theta):
    """log B_i at each point, (points, rows): Jaakkola and Jordan's, or the tangent in t^2 of the Student-t."""
    at, centre = problem.predictor(theta), problem.predictor(problem.centre)[0]
    if isinstance(problem.rows, oracle.Logistic):
        sign = 2 * Real(problem.y) - 1
        s, xi = sign * at, sign * centre
        steepness = np.tanh(xi / 2) / (4 * xi)
        bound = -np.log1p(np.exp(-xi)) + (s - xi) / 2 - steepness * (s**2 - xi**2)
    else:
        nu, scale = Real(problem.rows.nu), Real(problem.rows.scale)
        t, xi = (Real(problem.y) - at) / scale, (Real(problem.y) - centre) / scale
        bound = -(nu + 1) / 2 * (np.log1p(xi**2 / nu) + (t**2 - xi**2) / (nu + xi**2))
    return problem.weights * bound


def excesses(problem, theta):
    """log L_i - log B_i at each point, (points, rows)."""
    return -problem.row_potentials(theta) - lower_bounds(problem, theta)


def firefly(problem, proposal, q_db, z, rng, steps):
    """Run Firefly row by row from its definition: marks by Metropolis-Hastings, then theta given the marks."""
    n, d = problem.X.shape
    out = oracle.Chain(np.empty((steps, d)), np.zeros(steps, bool), np.zeros(steps, int), np.zeros(steps, bool))
    theta = problem.theta(z)[0]
    e = np.float64(excesses(problem, theta)[0])
    bright, dark = [], []
    for i in range(n):
        (bright if rng.random() < 1 - math.exp(-e[i]) else dark).append(i)
    dark.reverse()
    noise = oracle._Noise(rng, problem, proposal)
    for step in range(steps):
        looked, risen, place = 0, [], 0
        while True:
            place += math.floor(rng.standard_exponential() / -math.log1p(-q_db))
            if place >= len(dark):
                break
            looked += 1
            if rng.random() < math.expm1(e[dark[place]]) / q_db:
                risen.append(place)
            place += 1
            if place == len(dark):
                break
        order, first_dark = bright + dark, len(bright)
        count = first_dark
        for k in reversed(range(first_dark)):
            if rng.random() < q_db / math.expm1(e[order[k]]):
                count -= 1
                order[k], order[count] = order[count], order[k]
        for place in risen:
            at = first_dark + place
            order[at], order[count] = order[count], order[at]
            count += 1
        bright, dark = order[:count], order[count:]
        if proposal.walk_every > 0 and step % proposal.walk_every == 0:
            other, ratio = theta + proposal.walk_scale * problem.unwhiten @ noise.walk(), 0.0
        else:
            other = proposal.A * theta + proposal.b + proposal.root @ noise.next()[0]
            ratio = float(
                (proposal.log_density(other[None], theta[None]) - proposal.log_density(theta[None], other[None]))[0]
            )
        points = np.stack([theta, other])
        e_points = np.float64(excesses(problem, points))
        joint = lower_bounds(problem, points).sum(axis=1) - problem.prior(points)
        joint = joint + np.sum(np.log(np.expm1(e_points[:, bright])), axis=1)
        accept = rng.standard_exponential() > -(float(joint[1] - joint[0]) + ratio)
        looked += len(bright)
        if accept:
            theta, e = other, e_points[1]
        out.z[step] = problem.z(theta)[0]
        out.accepted[step], out.rows_touched[step] = accept, looked
    return out


def zigzag(problem, frame, step, draw_row, z, rng, draws, psi):
    """Follow the Zig-Zag process from its definition, in coordinates u with theta = centre + frame u.

    `draw_row` is a function of the random stream that returns the next row.
    """
    d = z.size
    rows = problem.X @ frame
    slopes_at_centre = problem.rows.derivatives(problem.y, problem.predictor(problem.centre)[0])[1]
    precision = frame.T @ np.diag(problem.prior_precision) @ frame
    gradient = frame.T @ problem.gradient
    u = np.linalg.solve(frame, problem.unwhiten @ z)
    v = np.where(rng.random(d) < 0.5, -1.0, 1.0)
    total = np.sum(psi)
    out = oracle.Chain(np.empty((draws, d)), np.ones(draws, bool), np.zeros(draws, int), np.zeros(draws, bool))
    for draw in range(draws):
        left = step
        while True:
            h, bend = v * (gradient + precision @ u), v * (precision @ v)
            parts = np.maximum(h, 0), np.maximum(bend, 0)
            start = np.sum(parts[0]) + total * np.linalg.norm(u)
            growth = np.sum(parts[1]) + total * math.sqrt(d)
            waiting = rng.standard_exponential()
            # The time at which start t + growth t^2 / 2 reaches the exponential.
            time = (-start + math.sqrt(start**2 + 2 * growth * waiting)) / growth
            if not time < left:
                u = u + left * v
                break
            left -= time
            far = np.linalg.norm(u) + math.sqrt(d) * time
            u = u + time * v
            threshold = rng.random() * (start + growth * time)
            limits = parts[0] + parts[1] * time
            if threshold < np.sum(limits):
                ends = np.cumsum(limits)
                j = int(np.searchsorted(ends, threshold, side="right"))
                if threshold - (ends[j] - limits[j]) < max(0.0, (v * (gradient + precision @ u))[j]):
                    v[j] = -v[j]
                continue
            i = draw_row(rng)
            out.rows_touched[draw] += 1
            theta = problem.centre + frame @ u
            slope = problem.rows.derivatives(problem.y[i], problem.predictor(theta)[0, i])[1]
            change = float(problem.weights[i] * (slope - slopes_at_centre[i]))
            ends = np.cumsum(np.maximum(v * change * rows[i], 0))
            threshold = rng.random() * psi[i] * far
            if threshold < ends[-1]:
                j = int(np.searchsorted(ends, threshold, side="right"))
                v[j] = -v[j]
        out.z[draw] = problem.root.T @ frame @ u
    return out


def slope_bounds(problem, frame):
    """C_i |x~_i|_2 |x~_i|_1 of every row."""
    rows = problem.X @ frame
    size = np.linalg.norm(rows, axis=1) * np.sum(np.abs(rows), axis=1)
    return problem.weights * problem.rows.constants(2) * size


BATCHES = 40


def disagreement(draws, reference):
    """Return the largest score of differences in mean, sd and quantiles, and the level it may reach.

    Both are (draws, coefficient). Batch means of theta, of its squared distance from a fixed point and of
    indicators at fixed points; Welch's t with the smaller of the two degrees of freedom. The level holds for all
    comparisons together (Bonferroni), false positives 1e-6.
    """
    centre, spread = reference.mean(axis=0), reference.std(axis=0)
    functions = [lambda x: x, lambda x: ((x - centre) / spread) ** 2]
    for share in (0.05, 0.25, 0.5, 0.75, 0.95):
        point = centre + stats.norm.ppf(share) * spread
        functions.append(lambda x, point=point: (x < point).astype(float))
    scores = []
    for function in functions:
        ours, theirs = (function(x).reshape(BATCHES, -1, x.shape[1]).mean(axis=1) for x in (draws, reference))
        error = np.sqrt((ours.var(axis=0, ddof=1) + theirs.var(axis=0, ddof=1)) / BATCHES)
        scores.append(np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) / error)
    count = len(functions) * draws.shape[1]
    return float(np.max(scores)), float(stats.t.isf(0.5e-6 / count, BATCHES - 1))
