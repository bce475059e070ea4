"""The reference of experiment files is what the code says, and the template is an experiment."""

import json
import re
from pathlib import Path

import pytest
from reference import FILES

from schedlab.app.admit import admit
from schedlab.app.measure.files import read_experiment
from schedlab.app.measure.initial import as_file, write_initial
from schedlab.errors import SpecError
from schedlab.kinds import KINDS
from schedlab.run.admitted import Permission

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("file", FILES)
def test_the_published_reference_is_made_from_the_code(file, golden):
    golden(file, FILES[file](), ROOT / "docs/reference")


def test_every_kind_and_parameter_is_in_the_reference():
    text = FILES["workloads.md"]()
    for name, cls in KINDS.items():
        section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert all(f"| `{key}` |" in section for key in cls.__struct_fields__), name
    schema = json.loads(FILES["experiment.schema.json"]())
    assert set(schema["x-workload-kinds"]) == set(KINDS)


def test_references_call_types_by_one_name():
    for page in ("experiment.md", "workloads.md"):
        rows = re.findall(
            r"^\| `\w+` \| (.*?) \| ", (ROOT / "docs/reference" / page).read_text(), re.M
        )
        words = set(re.findall(r"\w+", re.sub(r"`[^`]*`|\([^)]*\)", "", " ".join(rows))))
        assert {"text", "table", "list", "integer"} <= words
        assert not words & {"string", "array", "object"}


def test_the_template_is_an_experiment_in_words_of_people(tmp_path):
    file = tmp_path / "mine.toml"
    write_initial(file)
    experiment = read_experiment(file)
    assert [c.label for c in experiment.candidates] == ["none", "mq-deadline", "kyber", "bfq"]
    assert experiment.baseline == "none"
    assert experiment.target.size_bytes == 1 << 30
    assert experiment.stopping.budget_s == 120
    assert experiment.workloads[0].parameters["seconds"] == 2.0
    with pytest.raises(SpecError, match="exists"):
        write_initial(file)


def test_an_experiment_written_as_a_file_is_the_same_experiment(tmp_path):
    file = tmp_path / "mine.toml"
    write_initial(file)
    experiment = read_experiment(file)
    again = tmp_path / "again.toml"
    again.write_text(as_file(experiment, "again.toml") + f"seed = {experiment.seed}\n")
    # Tables follow the head: a key after them would belong to the last table.
    text = as_file(experiment, "again.toml")
    head, _, rest = text.partition("\n[")
    again.write_text(f"{head}\nseed = {experiment.seed}\n[{rest}")
    assert read_experiment(again) == experiment


def test_two_readings_of_a_file_without_a_seed_differ_only_in_it(tmp_path):
    file = tmp_path / "mine.toml"
    write_initial(file)
    assert read_experiment(file).seed != read_experiment(file).seed


def test_a_simulation_passes_the_door(tmp_path):
    file = tmp_path / "sim.toml"
    file.write_text(
        'kind = "sim"\n'
        'candidates = [{ label = "fcfs", settings = { policy = "fcfs" } }]\n'
        '[[workloads]]\nlabel = "A"\nkind = "ssd"\nparameters = { requests = 100 }\n'
    )
    admitted = admit(read_experiment(file), Permission(trust=False))
    assert admitted.writes == () == admitted.programs
