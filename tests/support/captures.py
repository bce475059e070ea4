"""Captures of the block layer, of which a test says only what it is about."""

TIMES = {"count": 0, "sum_ns": 0, "max_ns": 0, "bins": []}
PARTS = ("tag", "plug", "scheduler", "device", "total")
DEPTH = {"mean": 0.0, "max": 0, "series": []}


def whole(document):
    """The capture with every key that one has (schedlab.nouns.capture)."""
    depth, accounting = document.get("depth", {}), document.get("accounting", {})
    return {
        "device": "sda", "scheduler": "none", "elapsed_ns": 0, "sees_limits": False, "series": [],
        "tags": 0, "totals": {}, "bfq": None, "lost": {}, "waiting": [], "cost": None,
        **document,
        "classes": [{"process": None, "processes": 0, **each} for each in document["classes"]],
        "groups": [
            {"size_max": None, **each, **{part: TIMES | each.get(part, {}) for part in PARTS}}
            for each in document["groups"]
        ],
        "depth": {place: DEPTH | depth.get(place, {})
                  for place in ("scheduler", "driver", "both", "limits")},
        "accounting": {"captured_sectors": 0, "device_sectors": None, "gap_sectors": 0,
                       **accounting},
    }  # fmt: skip
