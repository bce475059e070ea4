"""Orders in which every candidate follows every other equally often, or every one and itself.

E. J. Williams, "Experimental designs balanced for the estimation of residual effects of
treatments", Australian Journal of Scientific Research A 2 (1949). Strongly balanced, where each
follows itself as well: G. Berenblut, "Change-over designs with complete balance for first residual
effects", Biometrics 20 (1964); here rows of Williams squares are chained at their ends.
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
    """The requested number of orders of 0..n-1: whole squares under new random names.

    Where blocks follow each other without anything between them (`chained`), each begins with the
    item that ended the one before: over 2n blocks every item follows every one, itself included,
    equally often. One that never follows itself would never meet what it leaves behind.
    """

    def __init__(self, n: int, rng: random.Random, *, chained: bool = False) -> None:
        self._n = n
        self._rng = rng
        self._chained = chained
        self._orders: list[list[int]] = []

    def of_block(self, block: int) -> list[int]:
        """The order of a block; the same for any number of blocks."""
        while len(self._orders) <= block:
            self._orders += self._chain() if self._chained else self._shuffled(self._square())
        return self._orders[block]

    def _square(self) -> list[list[int]]:
        names = self._rng.sample(range(self._n), self._n)
        return [[names[item] for item in row] for row in williams_square(self._n)]

    def _shuffled(self, rows: list[list[int]]) -> list[list[int]]:
        return self._rng.sample(rows, len(rows))

    def _chain(self) -> list[list[int]]:
        """2n rows, each from the end of the one before: a circuit through all of them.

        The rows of one square of even n form circuits of two; two squares have one if their names
        link these.
        """
        start = self._orders[-1][-1] if self._orders else self._rng.randrange(self._n)
        while True:
            rows = self._square() if self._n % 2 else self._square() + self._square()
            circuit = _circuit(self._shuffled(rows), start)
            if len(circuit) == len(rows):
                return circuit


def _circuit(rows: list[list[int]], start: int) -> list[list[int]]:
    """Rows from `start` back to it, each from the end of the one before: all that can be reached.

    Every item begins as many rows as it ends. C. Hierholzer, Mathematische Annalen 6 (1873).
    """
    left: dict[int, list[list[int]]] = {}
    for row in rows:
        left.setdefault(row[0], []).append(row)
    path: list[list[int]] = []
    circuit: list[list[int]] = []
    while True:
        at = path[-1][-1] if path else start
        if left.get(at):
            path.append(left[at].pop())
        elif path:
            circuit.append(path.pop())
        else:
            return circuit[::-1]
