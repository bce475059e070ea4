"""`schedlab io timings` on a real device; its two measurements take five seconds."""

import json

from click.testing import CliRunner

from schedlab.cli import cli


def run(*words):
    done = CliRunner().invoke(cli, ["io", "timings", *words])
    assert done.exit_code == 0, (done.output, done.exception)
    return done


def test_timings_are_hdparms_lines(loop):
    lines = run("--direct", loop).stdout.splitlines()
    assert lines[0] == "" or loop in lines[0]
    assert sum(line.lstrip().startswith("Timing ") for line in lines) == 2
    assert sum("O_DIRECT" in line for line in lines) == 2


def test_timings_as_json_have_the_bytes_and_the_times(loop):
    found = json.loads(run("--json", loop).stdout)
    assert (found["schema"], list(found["timings"])) == (1, [loop])
    assert found["timings"][loop]["device"]["bytes"] == 16 << 20
