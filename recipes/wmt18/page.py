"""One page of the experiment: the paper's tables and figures, of one language or of all together.

python -m recipes.wmt18.page --title "The paper's corpora" --output report.html de=FOLDER tr=...

Reads what the steps left in the folder of each language: counts.md, results/{test,first}.*.json,
and in results/*.flags, a word a line, the flags of the `simile report` calls whose answers go here:
test.flags (everything about the test set) and valid.flags (examples of the validation set).
"""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from recipes.wmt18 import results
from simile_plugin.cli import load_command
from simile_plugin.files import InputError, as_script, atomic_write
from simile_plugin.report import (
    Answer,
    Cell,
    Table,
    ask,
    ask_for_page,
    choose_questions,
    describe_report,
    make_table,
    render_page,
)

# Sections of simile report by what they are in the thesis.
NUMBERS = {
    **{"results": "Table 68", "human": "Table 69", "lexical": "Table 70", "examples": "Table 71"},
    **{"headroom": "Figure 11", "curves": "Figure 12", "nbest": "Figure 13"},
}
COUNT = re.compile(r"\| (train|valid|test) \| ([\d,]+) \| ([\d,]+) \|")
Folders = dict[str, Path]
Data = dict[str, dict[str, Any]]  # language -> section -> its numbers


def report_answers(flags: Path) -> tuple[list[Answer], Answer]:
    """What simile report says with the flags in a file, and how that was made.

    Raises:
        InputError: where the file is missing, or simile report refuses its flags.
    """
    if not flags.exists():
        raise InputError(f"{flags}: not there; run the step report first")
    words = flags.read_text("utf-8").splitlines()
    parser = argparse.ArgumentParser()
    command = load_command("report")
    command.add_arguments(parser)
    inputs = command.read_inputs(parser.parse_args(words), shlex.join(["simile", "report", *words]))
    answers = ask_for_page(inputs, ask(inputs, choose_questions(inputs)))
    return answers, describe_report(inputs, answers)


def of_language(answer: Answer, src: str, number: str = "", name: str = "") -> Answer:
    """A section of one language: name, title and first sentence say which; the paper's number."""
    return replace(
        answer,
        name=f"{name or answer.name}-{src}",
        title=f"{src}-en: {answer.title}" + (f" ({number})" if number else ""),
        # The page opens with what is best, and what people say, of each language.
        sentences=[f"{src}-en: {text}" for text in answer.sentences[: bool(number)]],
        warnings=[f"{src}-en: {text}" for text in answer.warnings],
    )


def language_sections(src: str, folder: Path) -> tuple[list[Answer], dict[str, Any]]:
    """Every section about one language, and the numbers of those of the test set by their names."""
    found, made = report_answers(folder / "results" / "test.flags")
    (examples,), _ = report_answers(folder / "results" / "valid.flags")
    sections = []
    for answer in found:
        sections.append(of_language(answer, src, NUMBERS.get(answer.name, "")))
        if answer.name == "examples":
            title = f"{examples.title}, validation"
            own = replace(examples, title=title)
            sections.append(of_language(own, src, "Table 72", "examples-validation"))
    return [*sections, of_language(made, src)], {answer.name: answer.data for answer in found}


def counts(folders: Folders) -> Answer:
    """Table 67: sentence pairs here and in the paper."""
    rows, notes = [], []
    for src, folder in folders.items():
        text = (folder / "counts.md").read_text("utf-8")
        cells = [Cell(number) for row in COUNT.findall(text) for number in row[1:]]
        rows.append([f"{src}-en", *cells])
        notes.append(f"{src}-en: {text.splitlines()[0]}")
    head = ["Language"]
    for split in ("train", "validation", "test"):
        head += [split, f"{split}, paper"]
    lead = "Sentence pairs of each split, and the paper's."
    return section("counts", "Data (Table 67)", lead, [make_table(head, rows)], notes)


def section(
    name: str, title: str, lead: str, parts: list[Any], notes: list[str] | None = None
) -> Answer:
    """A section of this page's own."""
    return Answer(name, title, lead, title, parts, {}, notes=notes or [])


def scores(folders: Folders, split: str) -> Answer:
    """Table 68, or what the systems scored on validation after one epoch (7.5.2)."""
    head, groups = results.score_groups(folders, split)
    table = Table(head, [[[Cell(text) for text in row] for row in group] for group in groups])
    notes = [
        f"‡ better than MLE, † better than BLEU: p < {results.SIGNIFICANT} by simile report's test",
        "where several gammas were trained, that of each column was chosen on validation by the "
        "measure of the column; several seeds: their mean",
    ]
    if split == "test":
        lead = "Test scores of every system, newstest2018, and the paper's below them."
        return section("results", "Translation quality (Table 68)", lead, [table], notes)
    lead = "Validation scores after one epoch of risk training, and the paper's below them."
    return section("first", "After one epoch (7.5.2)", lead, [table], notes)


def compares_as_the_paper(own: dict[str, Any]) -> bool:
    """Whether the word F1 of a language is that of SIMILE minus that of BLEU."""
    found = own.get("lexical", {})
    return (found.get("first_name"), found.get("second_name")) == ("BLEU", "SIMILE")


def lexical(data: Data) -> Answer:
    """Table 70: differences of word F1, a column a language, their mean, the paper's mean.

    Of the languages with the paper's two systems: another pair has another difference.
    """
    paper = results.paper_figures("70")
    named = {src: own["lexical"] for src, own in data.items() if compares_as_the_paper(own)}
    parts = []
    for kind, title in (("frequency", "Frequency in the references"), ("pos", "Part of speech")):
        found = {
            src: {row["bucket"]: row["against"].get("SIMILE") for row in rows}
            for src, own in named.items()
            if (rows := own["tables"].get(kind))
        }
        buckets = dict.fromkeys(bucket for rows in found.values() for bucket in rows)
        rows = []
        for bucket in buckets:
            cells = [rows_of.get(bucket) for rows_of in found.values()]
            known = [cell["difference"] for cell in cells if cell]
            if known:
                shown = [f"{cell['difference']:+.2f}" if cell else "" for cell in cells]
                theirs = [paper.get((src, bucket, kind), "") for src in (*found, "mean")]
                rows.append([bucket, *shown, f"{fmean(known):+.2f}", *theirs])
        head = [title, *(f"{src}-en" for src in found), "mean"]
        head += [*(f"{src}-en, paper" for src in found), "mean, paper"]
        if rows:
            parts.append(make_table(head, rows))
    notes = [f"{src}-en: not here, it lacks BLEU or SIMILE" for src in data if src not in named]
    notes += [f"{src}-en: {own['notes'][-1]}" for src, own in named.items() if own["notes"]]
    lead = (
        "Word F1 of SIMILE minus that of BLEU, in points; the paper's four languages and their "
        "mean beside it."
    )
    return section("lexical", "Which words are translated better (Table 70)", lead, parts, notes)


def partial_credit(data: Data) -> Answer:
    """7.5.1: how often and how much costs differ within the lists of the MLE model."""
    paper = results.paper_figures("7.5.1")
    columns = (("cost_simile", "SIMILE"), ("cost_bleu", "BLEU"))
    rows = []
    for src, own in data.items():
        costs = own["headroom"]["costs"]
        for cost, name in columns:
            if cost in costs:
                found = costs[cost]
                ours = 100 * found["above_zero_share"], 100 * found["mean_difference"]
                theirs = [paper.get((src, cost, what), "") for what in ("differ", "difference")]
                rows.append([f"{src}-en", name, f"{ours[0]:.1f} %", theirs[0] and f"{theirs[0]} %",
                             f"{ours[1]:.1f}", theirs[1]])  # fmt: skip
    head = ["Language", "Cost", "differ", "paper", "mean difference", "paper"]
    lead = (
        "Pairs of candidates of one 8-best list of the MLE model on validation that cost "
        "differently, and the mean difference in points."
    )
    return section("partial-credit", "Partial credit (7.5.1)", lead, [make_table(head, rows)])


def human(folders: Folders, data: Data) -> Answer:
    """Table 69: ratings where there are answers, else where the sheets lie."""
    paper = results.paper_figures("69")
    names = ("MLE", "BLEU", "SIMILE")
    rows, notes = [], []
    for src, folder in folders.items():
        rated = {own["name"]: own["mean"] for own in data[src].get("human", {}).get("systems", ())}
        ours = [f"{rated[name]:.2f}" if name in rated else "" for name in names]
        rows.append([f"{src}-en", *ours, *(paper.get((src, name, "rating"), "") for name in names)])
        if not rated and not (folder / "human/sheets").exists():
            notes.append(f"{src}-en: no sheets for people; the step report says why")
        elif not rated:
            notes.append(
                f"{src}-en: nobody has rated it; sheets for people are in "
                f"{folder / 'human/sheets'}, their answers go to {folder / 'human/answers'}: then "
                "run the steps report and table again"
            )
    head = ["Language", *names, *(f"{name}, paper" for name in names)]
    lead = "Mean rating by people, 0 to 5, of 200 sentences in the paper."
    return section("human", "People (Table 69)", lead, [make_table(head, rows)], notes)


def whole_page(title: str, folders: Folders) -> str:
    """The document: the tables of all languages, then every section of each."""
    sections, data = [], Data()
    for src, folder in folders.items():
        own, data[src] = language_sections(src, folder)
        sections += own
    tables = [scores(folders, "test"), counts(folders), human(folders, data), partial_credit(data)]
    if after_epoch := results.after_one_epoch(folders):
        tables.append(scores(after_epoch, "first"))
    if any(map(compares_as_the_paper, data.values())):
        tables.append(lexical(data))
    languages = ", ".join(f"{src}-en" for src in folders)
    return render_page(f"Beyond BLEU, {languages}", title, [*tables, *sections])


@as_script
def main() -> None:
    """Parse and run; exit status 2 and one line for bad input."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--title", required=True, help="what the corpora are")
    parser.add_argument("--output", required=True, help="the page to write")
    parser.add_argument("folders", nargs="+", help="LANGUAGE=FOLDER")
    args = parser.parse_args()
    page = whole_page(args.title, results.named_folders(args.folders))
    with atomic_write(args.output) as stream:
        stream.write(page)


if __name__ == "__main__":
    raise SystemExit(main())
