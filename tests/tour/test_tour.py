"""Every command line that the documents print, typed as printed where the wheel is installed."""

from functools import partial

import pytest
from loops import needs_root
from stops import scenes
from walk import names_of, walk

SCENES = scenes()


@needs_root
@pytest.mark.parametrize(
    "scene", [one for one in SCENES if not one.group and one.plain != "only"], ids=names_of
)
def test_lines_as_root(scene, start, need, names, place):
    walk(scene, partial(start, False), need, names, place)


@pytest.mark.parametrize("scene", [one for one in SCENES if one.plain != "no"], ids=names_of)
def test_lines_without_root(scene, start, need, names, place):
    walk(scene, partial(start, True), need, names, place)
