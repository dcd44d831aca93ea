"""A small mixed-integer program in floats: columns and rows, one objective after the other; solved by HiGHS."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

INFINITY = float("inf")
TOLERANCE = 1e-9
"""How far a row or a whole number may be missed."""
MAX_NODES = 20_000
"""Where a search ends: counted, so that the same program has the same end on every machine."""
SECONDS = 10.0
"""Where it ends whatever the count says."""

SEARCH = {
    "mip_heuristic_run_zi_round": True,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_feasibility_jump": False,
}
"""How a first solution is looked for: measured on programs of this kind, twice as fast as HiGHS does it by itself."""


@dataclass
class Program:
    """Columns are numbered as they are added. A row is a sum of columns between two bounds."""

    lowest: list[float] = field(default_factory=list)
    highest: list[float] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    """The columns that are 0 or 1."""
    rows: list[tuple[float, Mapping[int, float], float]] = field(default_factory=list)

    def column(self, highest: float = INFINITY) -> int:
        """A new column from zero to `highest`."""
        self.lowest.append(0.0)
        self.highest.append(max(highest, 0.0))
        return len(self.highest) - 1

    def choice(self) -> int:
        """A new column that is 0 or 1."""
        self.whole.append(self.column(1.0))
        return self.whole[-1]

    def at_most(self, terms: Mapping[int, float], bound: float) -> None:
        """A row that may not be greater than `bound`."""
        self.rows.append((-INFINITY, terms, bound))

    def at_least(self, terms: Mapping[int, float], bound: float) -> None:
        """A row that may not be less than `bound`."""
        self.rows.append((bound, terms, INFINITY))

    def equal(self, terms: Mapping[int, float], bound: float) -> None:
        """A row that is `bound`."""
        self.rows.append((bound, terms, bound))

    def fix(self, chosen: Sequence[float]) -> None:
        """Keep every choice as it was made; what remains has no choices."""
        for column in self.whole:
            self.lowest[column] = self.highest[column] = float(round(chosen[column]))
        self.whole = []

    def solve(self, objective: Mapping[int, float], gap: float = 0.0) -> Sequence[float] | None:
        """The columns at the least objective, or at most a share of it (`gap`) above; None if not found soon."""
        import highspy

        solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, value in {
            "output_flag": False,
            "presolve": "off",  # on programs of this size it takes longer than it saves
            "threads": 1,
            "random_seed": 0,
            "mip_max_nodes": MAX_NODES,
            "time_limit": SECONDS,
            "mip_rel_gap": gap,
            "mip_abs_gap": TOLERANCE,
            "mip_feasibility_tolerance": TOLERANCE,
            "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
            **SEARCH,
        }.items():
            solver.setOptionValue(option, value)
        solver.passModel(self._model(highspy, objective))
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return [float(value) for value in solver.getSolution().col_value]

    def _model(self, highspy: Any, objective: Mapping[int, float]) -> Any:
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self.lowest), len(self.rows)
        model.col_cost_ = [objective.get(column, 0.0) for column in range(len(self.lowest))]
        model.col_lower_, model.col_upper_ = self.lowest, self.highest
        model.row_lower_ = [lowest for lowest, _, _ in self.rows]
        model.row_upper_ = [highest for _, _, highest in self.rows]
        if self.whole:
            kinds = [highspy.HighsVarType.kContinuous] * len(self.lowest)
            for column in self.whole:
                kinds[column] = highspy.HighsVarType.kInteger
            model.integrality_ = kinds
        starts, index, value = [0], [], []
        for _, terms, _ in self.rows:
            index += list(terms)
            value += list(terms.values())
            starts.append(len(index))
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = starts, index, value
        return model
