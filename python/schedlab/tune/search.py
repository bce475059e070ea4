"""The search itself: the next challenger of the incumbent, and the results so far.

    search = Search(space, default, seed=1)
    ask = search.ask()                                  # challenger and incumbent of one block
    search.tell(ask, Observation(difference=0.03))      # challenger 3 % better, in logs

First one tunable of the incumbent after the other is set to either end of its range, so that what
truly matters is seen early. Then Optuna proposes (multivariate TPE with constraints); it gets
every block as a separate observation, so it sees the noise. Proposals depend only on the seed
and the observations, so a search is resumed by replaying them. Nothing here knows a kernel.
"""

from __future__ import annotations

import math
import random
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError, to_install
from schedlab.tune.race import ASSUMED, Interval, Noise, decide, interval
from schedlab.tune.space import Settings, Space, few_changes, settings_of

if TYPE_CHECKING:
    import optuna

# Proposals before Optuna's.
STARTUP = 24
STALL = 30
AA_EVERY = 4
FINALISTS = 3
# The observation for a setting that failed: bad (in logs), and far from the constraints.
FAILED_VALUE, FAILED_VIOLATION = -1.0, 10.0
TRIES_MAX = 20


@dataclass(frozen=True)
class Match:
    """One block: `challenger` meets `incumbent` (numbers of entries); 0 is the default.

    `settings` are the challenger's; `has_aa`: the incumbent runs twice.
    """

    block: int
    challenger: int
    incumbent: int
    settings: Settings
    has_aa: bool


@dataclass(frozen=True)
class Observation:
    """The result of a block, in logs, above 0 better; `difference` is None after a failure.

    `violation` is by how much the challenger misses the constraints (log of the ratio to the
    limit, 0 and less: met), `incumbent_violation` the same of the incumbent. `aa` is the difference
    between the two runs of the incumbent.
    """

    difference: float | None
    violation: float = 0.0
    incumbent_violation: float = 0.0
    aa: float | None = None


@dataclass
class Contender:
    """A tested setting; `offset` is its estimated gain over the default."""

    number: int
    settings: Settings
    reference: float = 0.0
    offset: float = 0.0
    differences: list[float] = field(default_factory=list)
    violations: list[float] = field(default_factory=list)
    failed: bool = False

    @property
    def violation(self) -> float:
        """Mean miss of the constraints."""
        return sum(self.violations) / len(self.violations) if self.violations else 0.0

    @property
    def feasible(self) -> bool:
        """Whether it works and meets the constraints."""
        return not self.failed and self.violation <= 0


def require_optuna() -> Any:
    """The module; SpecError with what to install where it is missing."""
    try:
        import optuna
        import sklearn  # noqa: F401  # Optuna's fANOVA needs it
    except ImportError as error:
        raise SpecError(
            f"tuning needs {error.name}, which is not installed",
            to_install("optuna", "scikit-learn"),
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


class Search:
    """A search over a space, from the kernel's default on; `margin` is a difference that counts."""

    def __init__(
        self, space: Space, default: Settings, seed: int, margin: float = 0.02, stall: int = STALL
    ) -> None:
        self.optuna = require_optuna()
        self.space, self.seed, self.margin, self.stall = space, seed, margin, stall
        self.entries = [Contender(0, default)]
        self.incumbent = 0
        self.challenger: int | None = None
        self.blocks = 0
        self.since_incumbent = 0
        self.noise = ASSUMED
        self.exhausted = False
        self._tried = [default]
        self._study = self.optuna.create_study(direction="maximize")

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to try, or nothing new was better for too long."""
        return self.exhausted or self.since_incumbent >= self.stall

    def ask(self) -> Match | None:
        """The next block; None when nothing is left that was not tried."""
        if self.challenger is None:
            settings = self._proposal()
            if settings is None:
                self.exhausted = True
                return None
            self._enter(settings)
        assert self.challenger is not None
        entry = self.entries[self.challenger]
        has_aa = self.blocks % AA_EVERY == 0
        return Match(self.blocks, entry.number, self.incumbent, entry.settings, has_aa)

    def _enter(self, settings: Settings) -> None:
        number = len(self.entries)
        self.entries.append(Contender(number, settings, self.entries[self.incumbent].offset))
        self._tried.append(settings)
        self.challenger = number

    def enter(self, ask: Match) -> None:
        """Take over the challenger of a block that an earlier process began."""
        if self.challenger is None:
            self._enter(ask.settings)

    def skip(self, ask: Match) -> None:
        """A block without a value: its challenger meets the incumbent in another one."""
        self.enter(ask)
        self.blocks = ask.block + 1

    def tell(self, ask: Match, seen: Observation) -> None:
        """Add the result of a block; `ask` may come from an earlier process that was killed."""
        self.enter(ask)
        if (ask.challenger, ask.incumbent) != (self.challenger, self.incumbent):
            raise SpecError(f"block {ask.block} does not continue the blocks before it")
        self.blocks = ask.block + 1
        if seen.aa is not None:
            self.noise = self.noise.with_aa(seen.aa)
        entry, incumbent = self.entries[ask.challenger], self.entries[ask.incumbent]
        incumbent.violations.append(seen.incumbent_violation)
        if seen.difference is None:
            entry.failed = True
            self._observe(entry, FAILED_VALUE, FAILED_VIOLATION)
            self._end(entry, promoted=False)
            return
        entry.differences.append(seen.difference)
        entry.violations.append(seen.violation)
        self._observe(entry, entry.reference + seen.difference, seen.violation)
        self._race(entry, incumbent)

    def _race(self, entry: Contender, incumbent: Contender) -> None:
        """Whether the challenger continues, wins or is dropped."""
        tries = len(entry.violations)
        if not incumbent.feasible and entry.feasible:
            if tries >= 2:  # one block may be luck
                self._end(entry, promoted=True)
        elif tries >= 2 and entry.violation > max(0.0, incumbent.violation):
            self._end(entry, promoted=False)
        else:
            decision = decide(entry.differences, self.pooled(entry), self.margin)
            if decision != "more":
                self._end(entry, promoted=decision == "promote" and entry.feasible)

    def pooled(self, entry: Contender) -> Noise:
        """The noise of all that was measured so far, the running challenger included."""
        return self.noise.with_differences(entry.differences)

    def _end(self, entry: Contender, promoted: bool) -> None:
        self.noise = self.pooled(entry)
        self.challenger = None
        entry.offset = entry.reference + self._shrunk(entry)
        self.since_incumbent += 1
        if promoted:
            self.incumbent, self.since_incumbent = entry.number, 0

    def _shrunk(self, entry: Contender) -> float:
        """The mean difference without what chance adds to the largest of many."""
        n = len(entry.differences)
        if not n:
            return FAILED_VALUE
        mean = sum(entry.differences) / n
        error = self.noise.spread**2 / n
        return mean * mean**2 / (mean**2 + error) if mean else 0.0

    def interval_of(self, number: int) -> Interval | None:
        """Of an entry against its incumbent, shifted to be against the default; None without."""
        entry = self.entries[number]
        if not entry.differences:
            return None
        estimate = interval(entry.differences, self.pooled(entry))
        by = entry.reference
        return Interval(
            estimate.mean + by, estimate.low + by, estimate.high + by, estimate.sure_low + by
        )

    def finalists(self) -> list[Contender]:
        """The best three that meet the constraints, the incumbent first.

        One that lost in the search takes its time from the others, so it is left out; the best one
        stays in any case.
        """
        tried = [e for e in self.entries[1:] if e.feasible and e.differences]
        ranked = sorted(tried, key=lambda e: (e.number != self.incumbent, -self._sort_value(e)))
        least = self.entries[self.incumbent].offset - self.margin
        return [e for e in ranked if e is ranked[0] or e.offset > max(0.0, least)][:FINALISTS]

    def _sort_value(self, entry: Contender) -> float:
        """Its estimate less its standard error: one lucky block is not enough."""
        mean = sum(entry.differences) / len(entry.differences)
        return entry.reference + mean - self.noise.spread / math.sqrt(len(entry.differences))

    def importance(self, scheduler: str) -> dict[str, float]:
        """Share of the variance of the tested settings that each tunable explains (fANOVA)."""
        study = self.optuna.create_study(direction="maximize")
        mine = [t for t in self._study.trials if t.params.get("scheduler") == scheduler]
        kinds = [
            t for t in mine if t.values and t.user_attrs.get("violation", 0.0) < FAILED_VIOLATION
        ]
        for trial in kinds:
            study.add_trial(self._frozen(trial.params, trial.values[0], 0.0))
        if len(kinds) < 4 or not self.space.tunables_of(scheduler):
            return {}
        names = [self._key(scheduler, t.name) for t in self.space.tunables_of(scheduler)]
        evaluator = self.optuna.importance.FanovaImportanceEvaluator(seed=self.seed % 2**32)
        shares = self.optuna.importance.get_param_importances(
            study, evaluator=evaluator, params=names
        )
        return {name.partition("/")[2]: float(share) for name, share in shares.items()}

    def _proposal(self) -> Settings | None:
        """A setting that was not tried yet; None when none is found."""
        names = [each.scheduler for each in self.space.schedulers]
        for name in names:  # each scheduler as the kernel sets it up
            plain = settings_of(self.space, name, {})
            if plain not in self._tried:
                return plain
        if len(self.entries) <= STARTUP + len(names) and (settings := self._step()):
            return settings
        for attempt in range(TRIES_MAX):
            rng = random.Random(f"{self.seed}/{len(self.entries)}/{attempt}")
            if attempt >= TRIES_MAX // 2:
                scheduler = rng.choice(names)
                values = few_changes(self.space, scheduler, rng)
            else:
                scheduler, values = self._by_tpe(rng.randrange(2**32))
            settings = settings_of(self.space, scheduler, values)
            if settings not in self._tried:
                return settings
        return None

    def _step(self) -> Settings | None:
        """The incumbent with one tunable at an end of its range; None when all were tried."""
        incumbent = self.entries[self.incumbent].settings
        scheduler = str(incumbent["scheduler"])
        if scheduler not in {each.scheduler for each in self.space.schedulers}:
            return None
        tunables = self.space.tunables_of(scheduler)
        ends = [(t.name, end) for t in tunables for end in (t.low, t.high)]
        values = {t.name: int(incumbent[t.name]) for t in tunables if t.name in incumbent}
        for name, end in random.Random(f"{self.seed}/ends").sample(ends, len(ends)):
            settings = settings_of(self.space, scheduler, {**values, name: end})
            if settings not in self._tried:
                return settings
        return None

    def _by_tpe(self, seed: int) -> tuple[str, dict[str, int]]:
        """Optuna's proposal after all observations."""
        with warnings.catch_warnings():  # `group` is experimental, `constraints_func` an old name
            warnings.simplefilter("ignore")
            self._study.sampler = self.optuna.samplers.TPESampler(
                seed=seed, multivariate=True, group=True, n_startup_trials=1,
                constraints_func=lambda trial: (trial.user_attrs.get("violation", 0.0),),
            )  # fmt: skip
        trial = self._study.ask()
        names = [each.scheduler for each in self.space.schedulers]
        scheduler = trial.suggest_categorical("scheduler", names)
        values = {
            t.name: trial.suggest_int(self._key(scheduler, t.name), t.low, t.high, log=t.log)
            for t in self.space.tunables_of(scheduler)
        }
        self._study.tell(trial, state=self.optuna.trial.TrialState.FAIL)
        return scheduler, values

    def _observe(self, entry: Contender, value: float, violation: float) -> None:
        """One observation for Optuna; a repeated one is a separate trial."""
        scheduler = str(entry.settings["scheduler"])
        known = {each.scheduler for each in self.space.schedulers}
        if scheduler not in known:
            return
        parameters: dict[str, object] = {"scheduler": scheduler}
        for t in self.space.tunables_of(scheduler):
            usual = t.low if t.default is None else t.default
            number = int(entry.settings.get(t.name, usual))
            parameters[self._key(scheduler, t.name)] = min(max(number, t.low), t.high)
        self._study.add_trial(self._frozen(parameters, value, violation))

    def _frozen(
        self, parameters: dict[str, object], value: float, violation: float
    ) -> optuna.trial.FrozenTrial:
        names = [each.scheduler for each in self.space.schedulers]
        distributions: dict[str, object] = {
            "scheduler": self.optuna.distributions.CategoricalDistribution(names)
        }
        for each in self.space.schedulers:
            for t in each.tunables:
                key = self._key(each.scheduler, t.name)
                if key in parameters:
                    whole = self.optuna.distributions.IntDistribution(t.low, t.high, log=t.log)
                    distributions[key] = whole
        trial: optuna.trial.FrozenTrial = self.optuna.trial.create_trial(
            params=parameters,
            distributions=distributions,
            value=value,
            user_attrs={"violation": violation},
            system_attrs={"constraints": (violation,)},
        )
        return trial

    @staticmethod
    def _key(scheduler: str, name: str) -> str:
        return f"{scheduler}/{name}"
