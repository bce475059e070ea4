"""The golden files' helper itself: it fails with a diff, and renews only when asked."""

import golden as support
import pytest


def test_a_changed_text_fails_with_the_diff_until_it_is_renewed(tmp_path, monkeypatch):
    monkeypatch.setattr(support, "GOLDEN", tmp_path)
    support.Golden(update=True)("page.txt", "one \ntwo\n\n")
    assert (tmp_path / "page.txt").read_text() == "one\ntwo\n"
    compare = support.Golden(update=False)
    compare("page.txt", "one\ntwo")
    with pytest.raises(AssertionError, match=r"(?s)-two\n\+three.*pytest --update"):
        compare("page.txt", "one\nthree")
    with pytest.raises(AssertionError, match=r"\+one"):
        compare("new.txt", "one")
