"""Grids of experiment files."""

from schedlab.design.grid import expanded


def test_a_grid_is_a_table_for_each_point():
    work = {"label": "{test} {record_bytes} x{depth}", "kind": "k", "parameters": {"seconds": 1},
            "grid": {"test": ["read", "write"], "record_bytes": ["8k"], "depth": [3]}}  # fmt: skip
    assert expanded(work, "parameters", "e") == [
        {"label": f"{test} 8 KiB x3", "kind": "k",
         "parameters": {"seconds": 1, "test": test, "record_bytes": "8k", "depth": 3}}
        for test in ("read", "write")
    ]  # fmt: skip
    assert expanded({"label": "w", "grid": {}}, "parameters", "e") == [{"label": "w"}]
    assert expanded({"label": "w {a}"}, "parameters", "e") == [{"label": "w {a}"}]


def test_a_point_without_a_label_has_one_and_a_table_gives_several_keys():
    several = [{"label": "a few", "tags": 1, "window": 2}, {"tags": 3}]
    table = {"grid": {"policy": ["s"], "workload.device_set.rpm": [5400], "many": several}}
    assert expanded(table, "settings", "e") == [
        {"label": "s, rpm=5400, many=a few",
         "settings": {"policy": "s", "workload.device_set.rpm": 5400, "tags": 1, "window": 2}},
        {"label": f"s, rpm=5400, many={several[1]}",
         "settings": {"policy": "s", "workload.device_set.rpm": 5400, "tags": 3}},
    ]  # fmt: skip
