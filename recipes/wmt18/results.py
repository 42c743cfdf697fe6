"""Choice of gamma on validation, and scores of all languages beside the paper's figures.

results.py --measure bleu --scores out/valid --costs "bleu half" --gammas "0.2 0.3" --seeds "1 2"

It reads COST.GAMMA.SEED.json as simile score --json prints it, and prints COST=GAMMA for the gamma
of the highest mean over the seeds. page.py uses the rest, which reads results/{test,first}.{bleu,
sim,simile}.json as simile report --json prints them: of each measure, the systems chosen by it;
test is the test set, first the validation set after one epoch of risk training (thesis, 7.5.2).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import fmean
from typing import Any

from simile_plugin.files import InputError, as_script

PAPER = Path(__file__).with_name("paper-tables.tsv")
TABLES = {"test": "68", "first": "7.5.2"}
MEASURES = {"bleu": "BLEU", "sim": "SIM", "simile": "SIMILE"}
SIGNIFICANT = 0.05


def validation_score(folder: Path, system: str, measure: str) -> float:
    """One measure (0 to 100) of a system's validation translations.

    Raises:
        InputError: where there is no such file, or no such measure in it.
    """
    path = folder / f"{system}.json"
    try:
        scores = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); train {system} first") from error
    for score in scores:
        if score["name"] == MEASURES[measure]:
            return float(score["score"])
    raise InputError(f"{path}: has no {MEASURES[measure]}")


def choose(folder: Path, cost: str, gammas: list[str], seeds: list[str], measure: str) -> str:
    """The gamma whose validation score is highest in the mean over the seeds; ties: the first."""
    if len(gammas) == 1:
        return gammas[0]
    means = [
        fmean([validation_score(folder, f"{cost}.{gamma}.{seed}", measure) for seed in seeds])
        for gamma in gammas
    ]
    return gammas[means.index(max(means))]


def read_results(folder: Path, split: str, measure: str) -> dict[str, Any]:
    """What simile report --json said of the systems chosen by a measure.

    Raises:
        InputError: where the step `report` has not been run.
    """
    path = folder / "results" / f"{split}.{measure}.json"
    try:
        results: dict[str, Any] = json.loads(path.read_text("utf-8"))["results"]
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: cannot be read; run the step report first") from error
    return results


def paper_figures(table: str) -> dict[tuple[str, str, str], str]:
    """(language, row, column) -> what a table of the paper says, as it is printed there."""
    lines = PAPER.read_text("utf-8").splitlines()[1:]
    rows = (line.split("\t") for line in lines)
    return {(src, row, column): value for name, src, row, column, value in rows if name == table}


def daggers(against: list[dict[str, Any]]) -> str:
    """‡ where better than MLE, † where better than BLEU, p < 0.05, as the paper marks them."""
    better = {
        test["baseline"]
        for test in against
        if test["difference"] > 0 and test["p_value"] < SIGNIFICANT
    }
    return ("‡" if "MLE" in better else "") + ("†" if "BLEU" in better else "")


def score_groups(folders: dict[str, Path], split: str) -> tuple[list[str], list[list[list[str]]]]:
    """Systems by language and measure, the paper's layout: headings, and for each system its row
    and, where the paper has one, the paper's.
    """
    paper = paper_figures(TABLES[split])
    head, columns = ["Model"], []
    for language, folder in folders.items():
        for measure, name in MEASURES.items():
            head.append(f"{language}-en {name}")
            systems = read_results(folder, split, measure)["systems"]
            scores = {system["name"]: system["scores"][measure] for system in systems}
            columns.append((language, measure, scores))
    groups = []
    # Not every language has every system: run.sh takes COSTS.
    for name in dict.fromkeys(name for _, _, scores in columns for name in scores):
        ours, theirs = [name], ["paper"]
        for language, measure, scores in columns:
            score = scores.get(name)
            shown = f"{score['value']:.2f} {daggers(score['against'])}" if score else ""
            ours.append(shown.strip())
            theirs.append(paper.get((language, name, measure), ""))
        groups.append([ours, theirs] if any(theirs[1:]) else [ours])
    return head, groups


def after_one_epoch(folders: dict[str, Path]) -> dict[str, Path]:
    """The languages whose validation set was translated after one epoch (AFTER_EPOCH)."""
    return {
        language: folder
        for language, folder in folders.items()
        if (folder / "results" / "first.bleu.json").exists()
    }


def named_folders(words: list[str]) -> dict[str, Path]:
    """LANGUAGE=FOLDER arguments.

    Raises:
        InputError: for anything else.
    """
    named = {}
    for word in words:
        language, equals, folder = word.partition("=")
        if not (equals and language and folder):
            raise InputError(f"got {word!r}, expected LANGUAGE=FOLDER")
        named[language] = Path(folder)
    return named


@as_script
def main() -> None:
    """Parse and run; exit status 2 and one line for bad input."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measure", choices=list(MEASURES), required=True)
    parser.add_argument("--scores", type=Path, required=True, help="folder of the JSON files")
    for flag in ("--costs", "--gammas", "--seeds"):
        parser.add_argument(flag, type=str.split, required=True, help="separated by spaces")
    args = parser.parse_args()
    for cost in args.costs:
        print(f"{cost}={choose(args.scores, cost, args.gammas, args.seeds, args.measure)}")


if __name__ == "__main__":
    raise SystemExit(main())
