"""Q-value discrepancies as lines on a terminal and rows of a CSV file."""

from collections.abc import Iterator

from analysis.data.staleness import PLACES
from analysis.stats.intervals import Interval
from analysis.tables.verdicts import Row, setting_row
from analysis.verdicts.staleness import Setting


def lines(setting: Setting) -> Iterator[str]:
    """A head, and a line for each strategy."""
    cell = setting.cell
    yield (
        f"{setting.framework} {cell.algorithm} {cell.env} {cell.hps} {cell.variant}: Q-value "
        "discrepancy, mean over training with its 95% interval"
    )
    for item in setting.strategies:
        places = "; ".join(f"{place} step {_told(item.overall[place])}" for place in PLACES)
        score = f"final return {_told(item.score)}"
        yield f"  {item.strategy.title}: {places}; {score}; {len(item.seeds)} runs"


def _told(value: Interval) -> str:
    around = f" [{value.low:.3g}, {value.high:.3g}]" if value.n > 1 else ""
    return f"{value.mean:.3g}{around} (n={value.n})"


def rows(setting: Setting) -> list[Row]:
    """A row for each strategy, place and stage; stage 0 is the whole training."""
    return [
        {
            **setting_row(setting.cell),
            "framework": setting.framework,
            "stored_state": item.strategy.stored_state,
            "burn_in": item.strategy.burn_in,
            "place": place,
            "stage": number,
            **_numbers("discrepancy", value),
            **_numbers("final_return", item.score),
        }
        for item in setting.strategies
        for place in PLACES
        for number, value in enumerate((item.overall[place], *item.stages[place]))
    ]


def _numbers(name: str, value: Interval) -> Row:
    told = {"": value.mean, "_low": value.low, "_high": value.high, "_n": value.n}
    return {f"{name}{end}": number for end, number in told.items()}
