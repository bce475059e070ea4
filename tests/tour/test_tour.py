"""Every command line that the documents print, typed as printed where the wheel is installed."""

from functools import partial

import pytest
from loops import needs_root
from stops import scenes
from walk import names_of, walk

SCENES = scenes()


# What needs no root is typed without it, and by turns as root.
ALSO = pytest.mark.sampled(3)
AS_ROOT = [pytest.param(one, marks=ALSO if one.plain == "also" else ())
           for one in SCENES if not one.group and one.plain != "only"]  # fmt: skip


@needs_root
@pytest.mark.parametrize("scene", AS_ROOT, ids=names_of)
def test_lines_as_root(scene, start, need, names, place):
    walk(scene, partial(start, False), need, names, place)


@pytest.mark.parametrize("scene", [one for one in SCENES if one.plain != "no"], ids=names_of)
def test_lines_without_root(scene, start, need, names, place):
    walk(scene, partial(start, True), need, names, place)
