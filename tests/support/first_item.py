"""An operator for cosmic-ray: a loop, or a comprehension, ends after its first item."""

import parso
from cosmic_ray.operators.operator import Operator
from parso.python.tree import ForStmt, SyncCompFor


class FirstItem(Operator):
    """`for each in X` goes over the first item of X, also where X never ends."""

    def mutation_positions(self, node):
        if isinstance(node, ForStmt | SyncCompFor):
            yield node.children[3].start_pos, node.children[3].end_pos

    def mutate(self, node, index):
        items = node.children[3].get_code(include_prefix=False)
        node.children[3] = parso.parse(f" __import__('itertools').islice(({items}), 1)")
        return node

    @classmethod
    def examples(cls):
        return ()


class Provider:
    """Where cosmic-ray finds it."""

    def __iter__(self):
        return iter([FirstItem.__name__])

    def __getitem__(self, name):
        return FirstItem
