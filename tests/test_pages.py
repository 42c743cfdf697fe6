"""The pages of docs/: plain sentences, links that lead somewhere, openings, terms.

README.md, CONTRIBUTING.md and the recipes' pages are held to the same sentences and links. The
gallery is captions of pictures.
"""

import argparse
import functools
import re
import runpy
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from simile_plugin.cli import COMMANDS, LESS_USED

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GALLERY = DOCS / "gallery"
PAGES = sorted(path for path in DOCS.rglob("*.md") if GALLERY not in path.parents)
README = ROOT / "README.md"
LINKING = [*PAGES, README, ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("recipes/*/*.md"))]
TEXTS = [
    *LINKING,
    *sorted(ROOT.glob("recipes/papers/*/README.md")),
    ROOT / "recipes/evidence/results.md",
]
GLOSSARY = DOCS / "reference" / "glossary.md"
MOST_FIGURES = 2
MOST_LINES_OF_A_RECIPE = 25
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")
# A number that stands alone: no part of a word, a version or a year.
FIGURE = re.compile(r"(?<![\w.])(?!(?:19|20)\d\d\b)\d(?:[\d,.]*\d)?(?!\w)(?!\.\d)")
VERSION = re.compile(r"\b(Python|torch|CUDA|transformers|numpy|Slurm|METEOR) \d[\d.]*\b")
SENTENCE_END = re.compile(r"(?<=[.!?])[*)\"]*\s+(?=[A-Z0-9`*(\[\"])|:\s+(?=[A-Z])")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(text: str) -> Iterator[str]:
    """Yield paragraphs and points of a list, without code, tables, headings and pictures."""
    text = re.sub(r"(?ms)^(```|~~~).*?^\1", "", text)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        lines = block.strip("\n").splitlines()
        if lines and not lines[0].startswith(("    ", "|", "#", "![")):
            kept = (line.strip() for line in lines if not line.lstrip().startswith("|"))
            yield re.sub(r"^(?:[-*]|\d+\.) ", "", " ".join(kept))


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page; code in a line counts as a word, a link as its text."""
    for block in prose(text):
        plain = VERSION.sub(r"\1", LINK.sub(r"\1", re.sub(r"`[^`]+`", "CODE", block)))
        yield from filter(None, SENTENCE_END.split(plain))


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    found: set[str] = set()
    for heading in re.findall(r"(?m)^#+ (.+)$", path.read_text("utf-8")):
        words = LINK.sub(r"\1", heading).lower().replace("`", "")
        found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


def test_a_sentence_is_split_and_its_figures_are_counted():
    text = (
        "# 1 2 3\n\nIt gains 0.3 BLEU. A GPU (1 of 8) has `4 5 6` more: See 2 things.\n\n"
        "| 1 | 2 | 3 |\n\n    code 1 2 3\n\n- In 2019, newstest2018 had 2,998 pairs, or 45 %.\n"
    )
    found = list(sentences(text))
    assert found == [
        "It gains 0.3 BLEU.",
        "A GPU (1 of 8) has CODE more",
        "See 2 things.",
        "In 2019, newstest2018 had 2,998 pairs, or 45 %.",
    ]
    assert [FIGURE.findall(each) for each in found] == [["0.3"], ["1", "8"], ["2"], ["2,998", "45"]]


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_a_sentence_has_at_most_two_figures_and_no_semicolon(page):
    every = list(sentences(page.read_text("utf-8")))
    crowded = [each for each in every if len(FIGURE.findall(each)) > MOST_FIGURES]
    assert crowded == [], "put the series into a table"
    assert [each for each in every if ";" in each] == [], "make it two sentences"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_says_for_whom_it_is_what_it_gives_and_how_long_it_takes(page):
    title, opening, *_ = page.read_text("utf-8").split("\n\n")
    assert title.startswith("# ") and "\n" not in title
    words = " ".join(opening.split())
    assert re.match(r"For .+\. After this page you .+\. .*\b(minutes?|hours?)\b", words), words


@pytest.mark.parametrize("page", LINKING, ids=name_of)
def test_links_lead_somewhere(page):
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text("utf-8"))
    dead = []
    for _, target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            dead.append(target)
    assert dead == []


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_a_file_and_a_test_that_a_page_names_is_there(page):
    code = re.findall(r"`([^`\n]+)`", page.read_text("utf-8"))
    named = [each for each in code if re.match(r"(recipes|tests|simile_plugin|docs)/\S+$", each)]
    lost = []
    for file, _, test in (each.partition("::") for each in named):
        found = sorted(ROOT.glob(file.rstrip("/")))
        if not found or f"def {test}(" not in (found[0].read_text("utf-8") if test else "def ("):
            lost.append(f"{file} {test}")
    assert lost == []
    tests = {each for each in code if re.fullmatch(r"test_\w+", each)}
    written = "\n".join(path.read_text("utf-8") for path in ROOT.glob("tests/**/test_*.py"))
    assert {test for test in tests if f"def {test}(" not in written} == set()


def terms() -> dict[str, str]:
    """Return the terms of the glossary that have to be linked, and their anchors.

    They are its headings that are no everyday words: those with capitals within.
    """
    headings = re.findall(r"(?m)^### (.+)$", GLOSSARY.read_text("utf-8"))
    return {
        head: re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-")
        for head in headings
        if re.search(r"[A-Z]{2}|[a-z][A-Z]", head) and "`" not in head
    }


def unlinked_terms(page: Path) -> list[str]:
    """Return the terms whose first use in the text of a page leads to no explanation.

    The text of any link will do: a page may explain a term at greater length than the glossary.
    """
    found = []
    blocks = [re.sub(r"`[^`]+`", "CODE", block) for block in prose(page.read_text("utf-8"))]
    for term in terms():
        use = re.compile(rf"(?<![\w/-]){re.escape(term)}(?![\w-])")
        uses = ((block, match.start()) for block in blocks if (match := use.search(block)))
        for block, place in list(uses)[:1]:
            if not any(link.start() < place < link.end() for link in LINK.finditer(block)):
                found.append(term)
    return found


def test_the_terms_that_are_linked_are_those_that_a_stranger_does_not_know(tmp_path):
    assert {"BLEU", "chrF", "SIM", "MBR", "COMET", "REINFORCE", "MLQE-PE"} <= terms().keys()
    assert terms()["MLQE-PE"] == "mlqe-pe"
    page = tmp_path / "page.md"
    page.write_text("# BLEU\n\n[SIM](glossary.md#sim) and BLEU, `COMET`.\n\nMore SIM, [BLEU](x).\n")
    assert unlinked_terms(page) == ["BLEU"]


@pytest.mark.parametrize("page", [page for page in PAGES if page != GLOSSARY], ids=name_of)
def test_a_term_leads_to_the_glossary_where_a_page_first_uses_it(page):
    assert unlinked_terms(page) == []


def test_the_page_of_flags_is_current():
    script = DOCS / "reference" / "flags.py"
    page = script.with_suffix(".md").read_text("utf-8")
    made = runpy.run_path(str(script))["page"]()
    assert page == made, "python docs/reference/flags.py >docs/reference/flags.md"
    # By hand: two defaults, of the criterion and of the commands, and a rate by preset.
    assert "\n| `--risk-alpha` | `1` | `0.3` |" in page
    assert "\n| `--risk-length-control` | `1` | `1` |" in page
    assert "-rate` of `simile finetune-hf` | `2e-05` | `2e-05` | `1e-05` |" in page


def test_a_simile_command_takes_the_flags_that_a_page_gives_it():
    wrong = []
    for page in TEXTS:
        text = re.sub(r"\\\n\s*", "", page.read_text("utf-8"))
        for name, rest in re.findall(r"\bsimile ([a-z]+(?:-[a-z]+)*)((?: [^`|#\n]+)?)", text):
            if name in (*COMMANDS, *LESS_USED):
                given = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", rest))
                wrong += [(page.name, name, flag) for flag in given - flags_of(name)]
    assert wrong == []


@functools.cache
def flags_of(name):
    """Return the flags of a command, those of its subcommands included."""
    parser = argparse.ArgumentParser()
    import_module(f"simile_plugin.cli.{name.replace('-', '_')}").add_arguments(parser)
    parsers, found = [parser], {"--help"}
    for each in parsers:
        for action in each._actions:
            found.update(action.option_strings)
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
    return found


@pytest.mark.parametrize(
    ("repository", "outside"),
    [
        (None, "see [a](mbr.md), [b](../gallery/x.md) and c (`recipes/mbr/README.md`)"),
        (
            "https://host.org/me/simile",
            "see [a](mbr.md), [b](../gallery/x.md) and "
            "[c](https://host.org/me/simile/blob/main/recipes/mbr/README.md#d)",
        ),
    ],
)
def test_links_out_of_docs_are_code_or_the_repositorys_on_the_site(repository, outside):
    hook = runpy.run_path(str(DOCS / "outside_links.py"))["on_page_markdown"]
    page = SimpleNamespace(file=SimpleNamespace(src_uri="results/speed.md"))
    text = "see [a](mbr.md), [b](../gallery/x.md) and [c](../../recipes/mbr/README.md#d)"
    assert hook(text, page=page, config=SimpleNamespace(repo_url=repository)) == outside


def test_readme_is_short():
    lines = README.read_text("utf-8").splitlines()
    assert len(lines) <= 100 and max(map(len, lines)) <= 100


@pytest.mark.parametrize("recipe", sorted(ROOT.glob("recipes/*/README.md")), ids=name_of)
def test_the_page_of_a_recipe_is_short(recipe):
    if recipe.parent.name == "papers":
        pytest.skip("a table of papers")
    assert len(recipe.read_text("utf-8").splitlines()) <= MOST_LINES_OF_A_RECIPE
