"""Orders in which every candidate follows every other equally often.

E. J. Williams, "Experimental designs balanced for the estimation of residual effects of
treatments", Australian Journal of Scientific Research A 2 (1949).
"""

from __future__ import annotations

import random


def williams_square(n: int) -> list[list[int]]:
    """Rows of a carry-over balanced design of 0..n-1: n rows for even n, 2n rows for odd n.

    Over all rows each item is equally often at each position and directly after each other item.
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


class Orders:
    """The requested number of orders of 0..n-1: whole squares under new random names."""

    def __init__(self, n: int, rng: random.Random) -> None:
        self._n = n
        self._rng = rng
        self._orders: list[list[int]] = []

    def of_block(self, block: int) -> list[int]:
        """The order of a block; the same for any number of blocks."""
        while len(self._orders) <= block:
            names = self._rng.sample(range(self._n), self._n)
            square = [[names[item] for item in row] for row in williams_square(self._n)]
            self._orders += self._rng.sample(square, len(square))
        return self._orders[block]
