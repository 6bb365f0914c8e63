r"""The tables of a campaign for a paper: `tables.tex`, read by `\input{tables}` with the package booktabs. Pure."""

from __future__ import annotations

from workflow.campaign.results.campaign_tables import comparison_table, method_text, metric_table
from workflow.campaign.results.results_model import CampaignResults
from workflow.report.show.text_table import Table

LATEX_FILE = "tables.tex"
_ESCAPED = str.maketrans(
    {
        # After the end of a row LaTeX would take a bracket for the height of the gap.
        "[": r"{[}",
        "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
        "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
        "…": r"\ldots{}", "–": "--", "×": r"$\times$", "÷": r"$\div$", "µ": r"$\mu$", "²": r"$^2$", "≥": r"$\geq$",
        "≤": r"$\leq$", "≈": r"$\approx$", "→": r"$\to$", "−": "$-$",
    }
)  # fmt: skip


def latex_tables(results: CampaignResults) -> str:
    """A table for each metric, and one of the comparisons."""
    better = {"less": "less is better", "more": "more is better"}
    tables = [
        latex_table(metric_table(results, each), f"{each.name} ({each.of}, {better[each.better]})", each.name)
        for each in results.metrics
    ]
    if results.comparisons:
        caption = f"Comparisons: {method_text(results.comparisons)}"
        tables.append(latex_table(comparison_table(results), caption, "comparisons"))
    return "% \\usepackage{booktabs}\n" + "\n".join(tables)


def latex_table(table: Table, caption: str, label: str) -> str:
    """One table; numbers are aligned to the right. `label`: a part of the label, by which the text refers to it."""
    alignment = "".join("r" if heading.content == "number" else "l" for heading in table.head)
    rows = [[heading.title for heading in table.head], *table.rows]
    head, *body = (" & ".join(map(latex_text, row)) + r" \\" for row in rows)
    lines = [
        r"\begin{table}", r"\centering", rf"\caption{{{latex_text(caption)}}}", rf"\label{{tab:{label}}}",
        rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}",
        r"\end{table}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def latex_text(text: str) -> str:
    """A text with the characters escaped that LaTeX reads as commands."""
    return text.translate(_ESCAPED)
