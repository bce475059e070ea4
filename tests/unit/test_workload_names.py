"""The names of our workloads in Korean and Russian reports; the labels of users stay."""

from dataclasses import replace

from support import answers, reports

from schedlab.app.compare.comparison import Load
from schedlab.design.io_families import FAMILIES
from schedlab.kinds import KINDS
from schedlab.kinds.file_access import TESTS
from schedlab.report import handin, page, terminal
from schedlab.report.texts import LANGUAGES, Texts
from schedlab.report.workload_names import name_of, translated


def labels():
    """Of every workload that a word of --workloads means, and of all tests."""
    load = Load(tests=tuple(TESTS), record_bytes=(8192,), seconds=1.0)
    offered = {kind.offer.label for kind in KINDS.values() if kind.offer}
    return offered | {w.label for family in FAMILIES.values() for w in family(load, None)}


def test_languages_name_the_same_workloads_and_no_two_alike():
    """A workload that the catalogue does not name keeps its English label in every language."""
    named = {}
    for language in LANGUAGES:
        names = {label: name_of(Texts(language), label) for label in labels()}
        assert len(set(names.values())) == len(names)
        named[language] = {label for label, name in names.items() if name != label}
    assert named["ko"] == named["ru"] >= {"reader beside writers", "cached reads"}
    assert named["en"] == set()


def test_sizes_stay_and_so_do_labels_of_users():
    texts = Texts("ru")
    assert name_of(texts, "random-read 16 MiB") == "случайное чтение 16 MiB"
    assert name_of(texts, "archive extraction, xz") == "распаковка архива, xz"
    for label in ("read everything", "write 3 files", "nightly backup", "database of mine"):
        assert name_of(texts, label) == label


def test_everything_that_is_known_by_workload_is_by_its_name():
    of = reports.record_of(answers.BEST)
    label = "random-read 16 MiB"
    works = (replace(of.experiment.workloads[0], label=label),)
    parts = ("histograms", "series", "latencies", "explanations", "recordings")
    of = replace(of, experiment=replace(of.experiment, workloads=works),
                 **{part: {(label, "a"): part} for part in parts})  # fmt: skip
    record, _ = translated(of, answers.BEST, Texts("ru"))
    for part in parts:
        assert getattr(record, part) == {("случайное чтение 16 MiB", "a"): part}


def test_all_forms_use_the_name_and_keep_the_figures():
    named = {
        "newcomer beside writers": "новичок рядом с пишущими",
        "reader beside writers": "читатель рядом с пишущими",
    }
    english, russian = (reports.view_of(answers.TRADE, language) for language in ("en", "ru"))
    assert len(handin.study_tables(english)) == len(handin.study_tables(russian))
    shown = page.render(russian), terminal.render(russian, 200, False)
    page_of_english = page.render(english)
    for ours, name in named.items():
        assert all(name in text and ours not in text for text in shown)
        assert ours in page_of_english
    assert [run.metrics for run in english.runs] == [run.metrics for run in russian.runs]
