"""One table of all corpora and test sets, and whether it reaches the goals.

results.py multi30k-de=work/evidence/cpu/multi30k-de tatoeba-de=work/evidence/cpu/tatoeba-de

Reads results/{valid,test,heldout}.json of each folder, as simile report --json
prints them. Goals are of the rewards that see meaning, each for itself; the one with the best
validation scores by the judges (the mean of chrF, METEOR and SIM) is marked.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simile_plugin.files import InputError, as_script, read_lines
from simile_plugin.reward import Scorer, corpus_bleu
from simile_plugin.significance import (
    SentenceStatistics,
    bootstrap,
    bootstrap_p_value,
    interval,
    markdown_table,
)

TEST_SETS = ("test", "heldout")
CONTROLS = ("MORE-MLE", "BEST-OF-N", "MBR-FT", "SHUFFLED:BLEU", "NOISE", "MODEL")
NOT_SEMANTIC = {
    "MLE",
    "MORE-MLE",
    "BEST-OF-N",
    "MBR-FT",
    "BLEU",
    "CHRF",
    "CHRF++",
    "SHUFFLED",
    "NOISE",
    "MODEL",
}
JUDGES = {"bleu": "BLEU", "chrf": "chrF", "METEOR": "METEOR", "sim": "SIM"}
OTHER_JUDGES = ("chrf", "METEOR", "sim")  # those that no semantic reward is trained on
SIGNIFICANT = 0.01
MORE_THAN_MLE = 1.5  # BLEU
LENGTH = 0.02
RESAMPLES = 2000

System = dict[str, Any]


def read_systems(folder: Path, split: str) -> dict[str, System]:
    """What the report says of each system, with the signs of gaming beside the scores.

    Raises:
        InputError: where the step `report` has not been run.
    """
    path = folder / "results" / f"{split}.json"
    try:
        found = json.loads(path.read_text("utf-8"))
        signs = {system["name"]: system for system in found["gaming"]["systems"]}
        systems = found["results"]["systems"]
        return {system["name"]: system | {"signs": signs[system["name"]]} for system in systems}
    except (OSError, json.JSONDecodeError, KeyError) as error:
        raise InputError(f"{path}: cannot be read; run the step report first") from error


def judges(systems: dict[str, System]) -> dict[str, str]:
    """The judges that all systems have, METEOR and those of JUDGES where they ran."""
    present = next(iter(systems.values()))["scores"]
    own = {key: name for key, name in JUDGES.items() if key in present}
    return own | {title: title for title in present if title not in ("simile", *own)}


def against(system: System, judge: str, baseline: str) -> tuple[float, float]:
    """Difference and p-value of a system over a baseline; no difference to itself."""
    for test in system["scores"][judge]["against"]:
        if test["baseline"] == baseline:
            return test["difference"], test["p_value"]
    return 0.0, 1.0


def semantic(systems: dict[str, System]) -> list[str]:
    """The rewards that see meaning, mixes among them, with any variant (REWARD@VARIANT)."""
    parts = {name: re.split("[,&]", name.partition("@")[0]) for name in systems}
    return [
        name
        for name, mix in parts.items()
        if not NOT_SEMANTIC.issuperset(part.partition(":")[0] for part in mix)
    ]


def bleu_trained(systems: dict[str, System]) -> str:
    """The first system that was trained on BLEU, in whatever variant; "" for none."""
    return next((name for name in systems if name.partition("@")[0] == "BLEU"), "")


def best_on_validation(systems: dict[str, System]) -> str:
    """The semantic reward with the highest mean of the other judges on validation."""
    names = semantic(systems)
    keys = [key for key in OTHER_JUDGES if key in judges(systems)]
    return max(
        names,
        key=lambda name: sum(systems[name]["scores"][key]["value"] for key in keys),
        default="",
    )


def p_text(p_value: float) -> str:
    """Three digits, and a fourth where they would hide on which side of the goals' 0.01 it is."""
    if 0.009 < p_value < 0.011:
        return f"{p_value:.4f}"
    return "<0.001" if p_value < 0.0005 else f"{p_value:.3f}"


def score_table(systems: dict[str, System]) -> str:
    """Scores of one test set, their seeds, and what may have been paid for them."""
    columns = judges(systems)
    rows = [["System", *columns.values(), "length", "repeated", "copied"]]
    for name, system in systems.items():
        cells = []
        for key in columns:
            score = system["scores"][key]
            seeds = ", ".join(f"{value:.1f}" for value in score["seeds"])
            cells.append(
                f"{score['value']:.2f}" + (f" ({seeds})" if len(score["seeds"]) > 1 else "")
            )
        signs = system["signs"]
        copied = "" if signs["copied"] is None else f"{100 * signs['copied']:.2f} %"
        length, repeated = f"{signs['length_ratio']:.3f}", f"{100 * signs['repeated']:.2f} %"
        rows.append([name, *cells, length, repeated, copied])
    return markdown_table(rows)


def difference_table(systems: dict[str, System]) -> str:
    """Every system against MLE and against what was trained on BLEU."""
    columns = judges(systems)
    rows = [["Difference", *columns.values()]]
    for baseline in ("MLE", bleu_trained(systems)):
        for name, system in systems.items():
            if name in ("MLE", baseline) or not baseline:
                continue
            tests = (against(system, key, baseline) for key in columns)
            cells = (f"{difference:+.2f} (p {p_text(p_value)})" for difference, p_value in tests)
            rows.append([f"{name} - {baseline}", *cells])
    return markdown_table(rows)


def goals_of(systems: dict[str, System], name: str) -> dict[str, str]:
    """What a semantic reward reaches of the goals on one test set, yes or no and the figure."""
    system, start = systems[name], systems["MLE"]
    signs = system["signs"]
    found = {}
    for key, judge in judges(systems).items():
        difference, p_value = against(system, key, bleu_trained(systems))
        found[f"{judge} above BLEU-trained"] = verdict(
            difference > 0 and p_value < SIGNIFICANT, f"{difference:+.2f}, p {p_text(p_value)}"
        )
    gain, _ = against(system, "bleu", "MLE")
    length, repeated = signs["length_ratio"], signs["repeated"]
    # Three digits: 1.497 is no 1.50.
    found[f"BLEU over MLE >= {MORE_THAN_MLE}"] = verdict(gain >= MORE_THAN_MLE, f"{gain:+.3f}")
    within = abs(length - 1) <= LENGTH + 1e-9  # 1 - 0.98 is more than 0.02
    found[f"length within {LENGTH} of 1"] = verdict(within, f"{length:.3f}")
    before = start["signs"]["repeated"]
    found["repetition <= MLE's"] = verdict(
        repeated <= before, f"{100 * repeated:.2f} % after {100 * before:.2f} %"
    )
    return found


def verdict(reached: bool, figure: str) -> str:
    """A cell of the goals."""
    return f"{'yes' if reached else 'no'}: {figure}"


def goal_table(folders: dict[str, Path]) -> str:
    """Goals of all semantic rewards, by corpus and test set."""
    found: list[tuple[list[str], dict[str, str]]] = []
    for corpus, folder in folders.items():
        chosen = best_on_validation(read_systems(folder, "valid"))
        for split in TEST_SETS:
            systems = read_systems(folder, split)
            for name in semantic(systems) if bleu_trained(systems) else []:
                goals = goals_of(systems, name)
                mark = " (best)" if name == chosen else ""
                found.append(([corpus, split, name + mark], goals))
    # METEOR may have run on some corpora only.
    columns = list(dict.fromkeys(goal for _, goals in found for goal in goals))
    rows = [["Corpus", "Set", "Reward", *columns]]
    rows += [[*place, *(goals.get(goal, "") for goal in columns)] for place, goals in found]
    return markdown_table(rows) if found else "None: no semantic reward beside BLEU.\n"


def bleu_statistics(folder: Path, split: str, system: System) -> SentenceStatistics:
    """What the sentences of a system's seeds add to BLEU."""
    refs = list(read_lines(str(folder / "raw" / f"{split}.en"), "references"))
    files = [folder / "out" / split / Path(file).name for file in system["files"]]
    outputs = [list(read_lines(str(file), "translations")) for file in files]
    stats = Scorer().outputs(outputs, refs).bleu_stats.numpy().swapaxes(0, 1)
    return SentenceStatistics(stats, lambda sums: corpus_bleu(torch.from_numpy(sums)).numpy())


def share_rows(folder: Path, split: str, systems: dict[str, System]) -> list[dict[str, str]]:
    """By reward: what it gains over MLE, and how much of that each control does not gain.

    (reward - control) / (reward - MLE), of BLEU, with the 95% interval of a paired bootstrap; none
    for a gain that may be chance.
    """
    controls = [name for name in CONTROLS if name in systems]
    rewards = [name for name in systems if name not in ("MLE", *CONTROLS)]
    if not controls or not rewards:
        return []
    names = ["MLE", *controls, *rewards]
    statistics = [bleu_statistics(folder, split, systems[name]) for name in names]
    drawn = dict(zip(names, bootstrap(statistics, RESAMPLES), strict=True))
    scores = dict(zip(names, (one.corpus() for one in statistics), strict=True))
    found = []
    for name in rewards:
        gain, gains = scores[name] - scores["MLE"], drawn[name] - drawn["MLE"]
        sentences = statistics[0].sentences
        p_value = bootstrap_p_value(drawn["MLE"], drawn[name], gain, sentences)
        row = {"Reward": name, "gain over MLE": f"{gain:+.2f} (p {p_text(p_value)})"}
        for control in controls if gain > 0 and p_value < 0.05 else []:
            share = 100 * (scores[name] - scores[control]) / gain
            resampled = np.divide(
                100 * (drawn[name] - drawn[control]),
                gains,
                out=np.full(len(gains), -np.inf),  # where nothing was gained
                where=gains > 0,
            )
            range_ = interval(resampled)
            row[f"beside {control}"] = f"{share:.0f} % ({range_.low:.0f} to {range_.high:.0f})"
        found.append(row)
    return found


def share_table(folders: dict[str, Path]) -> str:
    """The reward's share of the gain, by corpus and test set."""
    found = [
        {"Corpus": corpus, "Set": split} | row
        for corpus, folder in folders.items()
        for split in TEST_SETS
        for row in share_rows(folder, split, read_systems(folder, split))
    ]
    columns = list(dict.fromkeys(name for row in found for name in row))
    rows = [columns, *([row.get(name, "") for name in columns] for row in found)]
    return markdown_table(rows) if found else "None: no control was trained.\n"


def render(folders: dict[str, Path]) -> str:
    """The whole page."""
    parts = ["# What the rewards do, by several judges\n"]
    for corpus, folder in folders.items():
        for split in (*TEST_SETS, "valid"):
            note = ": --lenpen and checkpoints were chosen on it" if split == "valid" else ""
            systems = read_systems(folder, split)
            parts += [f"## {corpus}, {split}{note}\n", score_table(systems), ""]
            parts += [difference_table(systems), ""]
    path = next(iter(folders.values())) / "results" / "test.json"
    results = json.loads(path.read_text("utf-8"))["results"]
    signatures = (f"{name}: `{text}`" for name, text in results["signatures"].items())
    test = results["test"]
    return "\n".join([
        *parts,
        "Scores are means of the seeds, which stand in brackets. p: one-sided paired "
        f"{test['kind']} over the sentences, {test['resamples']:,} resamples, of the seeds' mean "
        "scores. METEOR is the mean of the sentences'. BLEU judges what was trained on it, too "
        "(BLEU, HALF, LEARNED+BLEU), and so does chrF (CHRF).\n",
        *signatures,
        "\n## The reward's share of the gain, by BLEU\n",
        share_table(folders),
        "\n100 % is all of it: the control gained nothing. 95% intervals of a paired bootstrap "
        f"over the sentences, {RESAMPLES:,} resamples, of the seeds' means.",
        "\n## Goals\n",
        goal_table(folders),
        f"\np < {SIGNIFICANT} is needed for a yes; (best) is on validation.",
    ]) + "\n"  # fmt: skip


@as_script
def main(arguments: list[str]) -> None:
    """Print the page; exit status 2 and one line for bad input."""
    if not arguments or not all("=" in word for word in arguments):
        raise InputError("expected CORPUS=FOLDER...")
    print(render({name: Path(path) for name, _, path in (a.partition("=") for a in arguments)}),
          end="")  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
