"""The lines that set what a machine has once, such as a sysctl: one after the other."""

from functools import partial

import pytest
from loops import needs_root
from stops import scenes
from walk import names_of, walk

SCENES = [scene for scene in scenes() if scene.group == "machine"]


@needs_root
@pytest.mark.parametrize("scene", SCENES, ids=names_of)
def test_lines_as_root(scene, start, need, names, place):
    walk(scene, partial(start, False), need, names, place)
