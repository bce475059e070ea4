"""A simulated disk against a measured trace: what `schedlab sim validate` shows and writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schedlab.report.validation_page import write_validation
from schedlab.sim import validate as rules
from schedlab.sim.device import device_changes
from schedlab.sim.replay import replay_warnings
from schedlab.sim.simulation_set import Shown
from schedlab.spec import SCHEMA_VERSION


def validated(typed: Mapping[str, Any]) -> tuple[rules.Validation, Shown]:
    """The comparison that the options mean, and how it is shown."""
    options = dict(typed)
    changes = device_changes(options.pop("changes"))
    validation = rules.validate(rules.simulation_of(device_set=changes, **options))
    document = {"schema": SCHEMA_VERSION, "device": typed["device"], **validation.to_json()}
    warnings = replay_warnings(validation.figures.get("trace"))
    return validation, Shown(rules.show(validation), document, warnings)


def write_page(validation: rules.Validation, typed: Mapping[str, Any], folder: Path) -> None:
    """Figures and report.html in `folder`."""
    title = f"{Path(typed['device']).name} and {Path(typed['trace']).name}"
    measured, simulated = validation.measured_ms.tolist(), validation.simulated_ms.tolist()
    write_validation(folder, validation.to_json(), measured, simulated, title)
