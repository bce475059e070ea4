"""Orders in which every candidate follows every other equally often.

E. J. Williams, "Experimental designs balanced for the estimation of residual effects of
treatments", Australian Journal of Scientific Research A 2 (1949).
"""

from __future__ import annotations

import random


def williams_square(n: int) -> list[list[int]]:
    """Rows of a carry-over balanced design of 0..n-1: n rows for even n, 2n rows for odd n.

    Over all rows each item stands equally often at each position and directly after each other.
    """
    if n < 1:
        return []
    first = [0]
    low, high = 1, n - 1
    while len(first) < n:
        first.append(low)
        low += 1
        if len(first) < n:
            first.append(high)
            high -= 1
    square = [[(item + shift) % n for item in first] for shift in range(n)]
    return square if n % 2 == 0 else square + [row[::-1] for row in square]


def balanced_orders(n: int, count: int, rng: random.Random) -> list[list[int]]:
    """`count` orders of 0..n-1: whole squares under fresh random names, rows in random order."""
    orders: list[list[int]] = []
    while len(orders) < count:
        names = rng.sample(range(n), n)
        square = [[names[item] for item in row] for row in williams_square(n)]
        orders += rng.sample(square, len(square))
    return orders[:count]
