"""Tokens in shell lines: a real shell takes their values as they are, wherever they stand."""

import os
import subprocess

import pytest

from schedlab.errors import SpecError
from schedlab.kinds.launching import replaced_in_line

ODD = (
    "a  b", "it's", 'q"q', "$(touch pwned)", "`touch pwned`", "$HOME", "a\nb", "-n *", "@seed@",
    "\\", "a;touch pwned",
)  # fmt: skip
LINES = (
    ("printf %s @dir@/x", "{}/x"), ('printf %s "@dir@"', "{}"), ('printf %s "<@dir@>y"', "<{}>y"),
    ("printf %s @dir@@run@", "{}7"), ("printf %s \\'@dir@", "'{}"), ("printf %s '\\'@dir@", "\\{}"),
    ("cat <<E\n<@run@>\nE", "<7>\n"), ('x=@dir@; printf %s "$x"', "{}"),
    ('printf %s "$(printf %s "@dir@")"', "{}"), ('printf %s "it\'s @dir@"', "it's {}"),
    ('printf %s "\\"@dir@"', '"{}'), ("printf %s '@run@'@dir@", "7{}"),
)  # fmt: skip


@pytest.mark.parametrize("value", [*ODD, "/plain/x"])
@pytest.mark.parametrize(("line", "wanted"), LINES)
def test_a_shell_takes_the_value_as_it_is(tmp_path, line, wanted, value):
    tokens = {"dir": value, "device": "", "run": 7, "seed": 1}
    environment = {**os.environ, "SCHEDLAB_DIRECTORY": value}
    words = ["/bin/sh", "-c", replaced_in_line(line, tokens)]
    ran = subprocess.run(
        words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == (wanted.format(value), "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [value for value in ODD if value != "@seed@"])
def test_within_apostrophes_it_is_refused_where_a_shell_would_act_on_it(value):
    tokens = {"dir": value, "run": 7}
    for line in ("echo '@dir@'", "sh -c 'ls @dir@'", "echo \"\" '\\' '@dir@'"):
        with pytest.raises(SpecError, match="within apostrophes") as refused:
            replaced_in_line(line, tokens)
        assert '"$SCHEDLAB_DIRECTORY"' in refused.value.hint
    assert replaced_in_line("echo '@dir@ @run@'", {"dir": "/d", "run": 7}) == "echo '/d 7'"
