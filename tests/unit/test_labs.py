"""Every lab is a command line that its command understands."""

import pytest

from schedlab.cli import cli
from schedlab.cli.lab import labs
from schedlab.cli.lab.run import named


@pytest.mark.parametrize("name", labs())
@pytest.mark.parametrize("scale", ["small", "full"])
def test_the_options_of_a_lab_are_options_of_its_command(name, scale):
    words = labs()[name].arguments(scale)
    command, context = cli, cli.make_context("schedlab", list(words), resilient_parsing=True)
    while hasattr(command, "get_command"):
        command = command.get_command(context, words.pop(0))
        assert command is not None
    known = {option for parameter in command.params for option in parameter.opts}
    used = {word for word in words if word.startswith("--")}
    assert used <= known
    assert len(labs()[name].study) > 50


def test_what_is_typed_takes_the_place_of_the_labs_own_options():
    lab = labs()["bfq-tunables"]
    assert named(["--device=/dev/x", "--blocks", "3"]) == {"device", "blocks", "scratch"}
    words = lab.arguments("small", without=named(["--device=/dev/x", "--blocks", "3"]))
    assert "--scratch" in lab.arguments("small")
    assert not {"--scratch", "--blocks"} & set(words)
