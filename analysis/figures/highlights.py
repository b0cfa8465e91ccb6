"""The settings that differ most: curves over final scores, three in a row (thesis Figures 6-11)."""

import dataclasses
import difflib
import functools
import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.figures import curves
from parallax.analysis.figures.curves import ALGORITHM_LINES, FRAMEWORK_LINES
from parallax.analysis.figures.dot_plot import (
    compute_score_axis_limits,
    describe_failed_runs,
    draw_score_dots,
)
from parallax.analysis.figures.figure_spec import FigureSpec, MissingFigure
from parallax.analysis.figures.panels import (
    MARK_LEGEND_HEIGHT,
    CurveLine,
    PanelMargins,
    ScorePanel,
    describe_failed_curves,
    describe_interval,
    describe_sizes,
    draw_legend,
    draw_lines,
    fit_return_axis,
    get_usual_size,
    make_panel_grid,
    set_step_axis,
)
from parallax.analysis.figures.score_marks import (
    PUBLISHED,
    ScoreMark,
    describe_marks,
    draw_score_marks,
    list_mark_names,
    list_score_marks,
)
from parallax.analysis.figures.style import (
    PAGE_WIDTH,
    SeriesStyle,
    get_algorithm_styles,
    get_framework_styles,
)
from parallax.analysis.labels import (
    LIBRARY_DEFAULTS,
    clean_file_name,
    format_count,
    format_order_probability,
    get_label,
    get_recipe_label,
    make_file_name,
)
from parallax.analysis.verdicts.consistency import PairVerdict
from parallax.analysis.verdicts.ranking import WORST_FIRST
from parallax.analysis.verdicts.statements import DIFFERENT
from parallax.analysis.verdicts.study import StudyResults, StudyVariant

_COLUMNS = 3


@dataclasses.dataclass(frozen=True)
class HighlightPanels:
    """Some settings, each with curves and final scores.

    Attributes:
        kind: What lines represent: `frameworks` or `algorithms`.
        shares_axes: Whether all panels have the same axes.
    """

    panels: tuple[ScorePanel, ...]
    kind: str
    shares_axes: bool

    @property
    def lines(self) -> list[CurveLine]:
        """All lines of all panels."""
        return [line for panel in self.panels for line in panel.lines]

    @property
    def marks(self) -> list[ScoreMark]:
        """All marks of all panels."""
        return [mark for panel in self.panels for mark in panel.marks]


def draw_highlight_figure(content: HighlightPanels) -> Figure:
    """Draw curves over final scores, three settings in a row."""
    shown = [line.name for line in content.lines]
    styles = (
        get_framework_styles(shown)
        if content.kind == FRAMEWORK_LINES
        else get_algorithm_styles(shown)
    )
    columns = min(_COLUMNS, len(content.panels))
    rows = math.ceil(len(content.panels) / columns)
    titles = max(panel.title.count("\n") for panel in content.panels)
    names = list_mark_names(content.marks)
    top = 0.4 + 0.12 * titles + MARK_LEGEND_HEIGHT * bool(names)
    margins = PanelMargins(left=0.55, top=top, bottom=0.36, across=0.32, down=0.2)
    # An empty row between the blocks holds the titles of the lower one.
    heights = ([1.25, 0.13 * len(styles) + 0.1, 0.05 + 0.1 * titles] * rows)[:-1]
    width = margins.left + (PAGE_WIDTH - margins.left) * max(2, columns) / _COLUMNS
    figure, axes = make_panel_grid(len(heights), columns, width, heights, margins)
    draw_legend(figure, styles, names)
    for axis in axes.flat:
        axis.set_axis_off()
    for i, panel in enumerate(content.panels):
        row, column = divmod(i, columns)
        _draw_highlight_panel(
            axes[3 * row, column], axes[3 * row + 1, column], panel, content, styles
        )
        if column == 0:
            axes[3 * row, 0].set_ylabel("mean return")
    figure.text(
        0.5,
        0.06 / figure.get_figheight(),
        "above: over environment steps; below: score",
        ha="center",
    )
    return figure


def _draw_highlight_panel(
    top: Axes,
    bottom: Axes,
    panel: ScorePanel,
    content: HighlightPanels,
    styles: dict[str, SeriesStyle],
) -> None:
    for axis in (top, bottom):
        axis.set_axis_on()
    scope = content.lines if content.shares_axes else list(panel.lines)
    top.set_title(panel.title)
    draw_lines(top, panel.lines, styles)
    fit_return_axis(top, scope, panel.marks)
    draw_score_marks(top, panel.marks, along="y")
    set_step_axis(top, scope)
    places = {name: i for i, name in enumerate(styles)}
    dots = [(float(places[line.name]), line) for line in panel.lines]
    usual = get_usual_size(content.lines)
    limits = compute_score_axis_limits(scope, usual, panel.marks)
    draw_score_dots(bottom, dots, styles, limits, usual)
    draw_score_marks(bottom, panel.marks, along="x")
    bottom.set_ylim(len(styles) - 0.4, -0.6)
    bottom.set_yticks([])


MAX_PANELS = 6  # settings in a figure


def make_highlight_figure_specs(results: StudyResults) -> list[FigureSpec | MissingFigure]:
    """Return one figure per algorithm, and one per configuration that ranks algorithms."""
    pages = [_make_algorithm_figure_spec(results, part) for part in results.parts]
    pages += [
        _make_ranking_figure_spec(results, key)
        for key in curves.list_ranking_configurations(results)
    ]
    reason = "fewer than two settings have two frameworks with two runs used"
    found: list[FigureSpec | MissingFigure] = [page for page in pages if page is not None]
    return found or [MissingFigure("highlights", reason)]


def select_most_different(items: list[PairVerdict]) -> list[PairVerdict]:
    """Return the pair that differs most in each setting, the smallest corrected p-values first."""
    known = [item for item in items if not math.isnan(item.p_holm)]
    known.sort(key=lambda item: (item.verdict != DIFFERENT, item.p_holm, item.p_welch, item.cell))
    first = {item.cell: item for item in reversed(known)}
    return [item for item in known if first[item.cell] is item][:MAX_PANELS]


def _make_algorithm_figure_spec(results: StudyResults, part: StudyVariant) -> FigureSpec | None:
    chosen = select_most_different(list(part.pairs))
    if len(chosen) < 2:  # other figures have the curves and scores of a single setting
        return None
    panels = tuple(
        ScorePanel(
            f"{item.cell.env}\n{get_recipe_label(item.cell.hps)}",
            curves.make_framework_lines(results, item.cell),
            list_score_marks(results, item.cell),
        )
        for item in chosen
    )
    different = sum(item.verdict == DIFFERENT for item in chosen)
    title = f"Where frameworks differ most, {get_label(part.algorithm)}"
    how = (
        f"{format_count(len(chosen), 'setting')} with the smallest corrected p-values of Welch's "
        f"test; in {different} of them two frameworks are different by the verdict"
    )
    name = make_file_name("highlights", part.algorithm, *part.suffix)
    return make_highlight_figure_spec(
        results,
        name,
        title,
        how,
        HighlightPanels(panels, FRAMEWORK_LINES, False),
        part.context,
        [item.cell for item in chosen],
    )


def _make_ranking_figure_spec(
    results: StudyResults, key: curves.RankingConfiguration
) -> FigureSpec | None:
    study, hps, variant = key
    items = [
        item
        for item in results.verdicts.rankings
        if (item.study, item.hps, item.variant) == (study, hps, variant)
    ]
    if not items:
        return None
    worst = min(items, key=lambda i: (WORST_FIRST.index(i.verdict), i.same_order, i.env))
    panels = tuple(
        ScorePanel(
            f"{worst.env}\n{get_label(ranked.framework)}",
            curves.make_algorithm_lines(results, key, worst.env, ranked.framework),
            _list_policy_marks(results, ranked.groups[0].cell),
        )
        for ranked in worst.rankings
    )
    title = f"Ranking preserved least, hyperparameters: {get_recipe_label(hps)}"
    how = (
        f"{worst.env}, of {len(items)} tasks the one with the worst verdict ({worst.verdict}) "
        "and, among those, the smallest bootstrap probability of the same order "
        f"{format_order_probability(worst.same_order, worst.chance)}"
    )
    part = results.variants[study, variant]
    name = make_file_name("highlights", "ranking", hps, *part.suffix)
    cells = sorted({group.cell for ranked in worst.rankings for group in ranked.groups})
    return make_highlight_figure_spec(
        results,
        name,
        title,
        how,
        HighlightPanels(panels, ALGORITHM_LINES, True),
        part.context,
        cells,
    )


def _list_policy_marks(results: StudyResults, cell: StudyCell) -> tuple[ScoreMark, ...]:
    """Return the marks that all algorithms share: policies without training."""
    return tuple(mark for mark in list_score_marks(results, cell) if mark.name != PUBLISHED)


def make_highlight_figure_spec(
    results: StudyResults,
    name: str,
    title: str,
    how: str,
    content: HighlightPanels,
    context: str,
    cells: list[StudyCell],
) -> FigureSpec:
    """Return a figure of settings with its caption.

    `how` says how the settings were chosen.
    """
    caption = (
        f"{title} ({context}): {how}. Above: mean return per evaluation over environment steps. "
        f"Below: scores ({results.verdicts.options.chosen_endpoint.description}), a circle per "
        f"seed.{describe_failed_runs(content.lines)}{describe_failed_curves(content.lines)} Bands "
        f"and lines: {describe_interval(results.method)}; an arrow where a line goes "
        f"on.{describe_marks(list_mark_names(content.marks))} {describe_sizes(content.lines)}."
    )
    return FigureSpec(
        name, title, caption, tuple(cells), functools.partial(draw_highlight_figure, content)
    )


ALL_ALGORITHMS, OWN_RECIPE = "all", "own"


class UnknownPanelError(Exception):
    """A requested panel has no runs or cannot be parsed; the message lists what there is."""


@dataclasses.dataclass(frozen=True)
class PanelChoice:
    """One figure to be drawn.

    Attributes:
        settings: Task, algorithm and hyperparameters of each panel. Algorithm `all` stands for a
            panel per framework with every algorithm; hyperparameters `own` for each framework's.
    """

    name: str
    settings: tuple[tuple[str, str, str], ...]


def parse_panel_choice(text: str) -> PanelChoice:
    """Read `[NAME=]ENV:ALGORITHM:HPS,...`.

    Raises:
        UnknownPanelError: It is not of that form, or mixes two kinds of panels.
    """
    head, equals, rest = text.partition("=")
    name, settings = (head.strip(), []) if equals else ("panels", [])
    for part in (rest if equals else head).split(","):
        fields = tuple(field.strip() for field in part.split(":"))
        if len(fields) != 3 or not all(fields):
            raise UnknownPanelError(
                f"--panels={text}: {part.strip()!r} is not ENV:ALGORITHM:HPS. Give for instance "
                "--panels Ant-v4:ppo:sb3,Hopper-v4:ppo:original."
            )
        settings.append((fields[0], fields[1], fields[2]))
    if not clean_file_name(name):
        raise UnknownPanelError(
            f"--panels={text}: the name before = is empty. Give one, or leave = out."
        )
    if len({algorithm == ALL_ALGORITHMS for _, algorithm, _ in settings}) > 1:
        raise UnknownPanelError(
            f"--panels={text}: panels of one algorithm and of {ALL_ALGORITHMS} do not go into one "
            "figure. Give --panels twice."
        )
    return PanelChoice(clean_file_name(name), tuple(settings))


def make_panel_choice_figure_spec(results: StudyResults, choice: PanelChoice) -> FigureSpec:
    """Return the figure of requested panels.

    Runs of variants, that is of side experiments, are taken only where there are no others.

    Raises:
        UnknownPanelError: There are no runs for a panel.
    """
    panels: list[ScorePanel] = []
    cells: list[StudyCell] = []
    kind = FRAMEWORK_LINES
    for env, algorithm, hps in choice.settings:
        if algorithm == ALL_ALGORITHMS:
            kind = ALGORITHM_LINES
            found = _make_panels_of_frameworks(results, env, hps)
        else:
            found = _make_panels_of_algorithm(results, env, algorithm, hps)
        if not found:
            raise UnknownPanelError(_explain_unknown_panel(results, env, algorithm, hps))
        panels += [panel for panel, _ in found]
        cells += [cell for _, own in found for cell in own]
    how = "as requested: " + ", ".join(":".join(setting) for setting in choice.settings)
    cells = sorted(set(cells))
    contexts = sorted({results.variants[cell.study, cell.variant].context for cell in cells})
    shares_axes = kind == ALGORITHM_LINES and len(choice.settings) == 1
    content = HighlightPanels(tuple(panels), kind, shares_axes)
    return make_highlight_figure_spec(
        results, choice.name, "Chosen settings", how, content, "; ".join(contexts), cells
    )


def _make_panels_of_algorithm(
    results: StudyResults, env: str, algorithm: str, hps: str
) -> list[tuple[ScorePanel, list[StudyCell]]]:
    """Return a panel per study and variant, each with the settings behind it."""
    known = {cell for cell, _ in results.curves}
    found = sorted(c for c in known if (c.env, c.algorithm, c.hps) == (env, algorithm, hps))
    choices = _select_main_cells(results, found)
    several = len(choices) > 1
    return [
        (
            ScorePanel(
                _format_choice_title(cell, get_recipe_label(hps), several),
                curves.make_framework_lines(results, cell),
                list_score_marks(results, cell),
            ),
            [cell],
        )
        for cell in choices
    ]


def _make_panels_of_frameworks(
    results: StudyResults, env: str, hps: str
) -> list[tuple[ScorePanel, list[StudyCell]]]:
    """Return a panel per framework with all its algorithms, each with the settings behind it."""
    recipe = LIBRARY_DEFAULTS if hps == OWN_RECIPE else hps
    keys = {
        cell
        for cell, _ in results.curves
        if cell.env == env and recipe in (LIBRARY_DEFAULTS, cell.hps)
    }
    found = []
    for study, variant in sorted(
        {(c.study, c.variant) for c in _select_main_cells(results, sorted(keys))}
    ):
        at = {(c, name) for c, name in results.curves if (c.study, c.variant) == (study, variant)}
        for framework in sorted({name for cell, name in at if cell.env == env}):
            lines = curves.make_algorithm_lines(results, (study, recipe, variant), env, framework)
            own = [c for c, name in at if name == framework and c.env == env]
            wanted = framework if recipe == LIBRARY_DEFAULTS else recipe
            if lines:
                title = f"{env}, {get_recipe_label(recipe)}\n{get_label(framework)}"
                cells_shown = [c for c in own if c.hps == wanted]
                marks = _list_policy_marks(results, cells_shown[0]) if cells_shown else ()
                found.append((ScorePanel(title, lines, marks), cells_shown))
    return found


def _select_main_cells(results: StudyResults, cells: list[StudyCell]) -> list[StudyCell]:
    return [cell for cell in cells if cell in results.verdicts.main_cells] or cells


def _format_choice_title(cell: StudyCell, recipe: str, several: bool) -> str:
    apart = f"\n{cell.study}, {cell.variant}" if several else ""
    return f"{cell.env}, {get_label(cell.algorithm)}\n{recipe}{apart}"


def _explain_unknown_panel(results: StudyResults, env: str, algorithm: str, hps: str) -> str:
    """Return a message with the settings that there are, the closest first."""
    known = {(cell.env, cell.algorithm, cell.hps) for cell, _ in results.curves}
    if algorithm == ALL_ALGORITHMS:
        known = {(one, ALL_ALGORITHMS, recipe) for one, _, recipe in known}
    texts = sorted(":".join(setting) for setting in known)
    requested = f"{env}:{algorithm}:{hps}"
    close = difflib.get_close_matches(requested, texts, 3, 0.0) if texts else []
    return f"--panels={requested}: no run can be used. There are: {', '.join(close) or 'none'}" + (
        f" and {len(texts) - len(close)} more." if len(texts) > len(close) else "."
    )
