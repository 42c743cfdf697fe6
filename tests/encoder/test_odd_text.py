"""Hostile and odd text through the commands: never a traceback, never a wrong count."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from simile_plugin.cli import main
from simile_plugin.nbest.readers import read_nbest_lists
from simile_plugin.report.inputs.logs import read_validations
from tests.oracle import Oracle

ODD_SENTENCES = [
    "",
    " \t ",
    "<unk> @@ we@@ nt \u2581the \u2581",
    "\u2581\u2581\u2581",
    "the\u2028heron\u2029waits\x85beside\x0bcold\x0cwater\x1c.",
    "\u05d4\u05d0\u05e0\u05e4\u05d4 \u202eheron\u202c \u0627\u0644\u0645\u0627\u0621",
    "e\u0301\u0301\u0301 n\u0303o \ufb01ne \uff21\uff22",
    "\U0001f9d1\u200d\U0001f33e\U0001f600 heron \ufe0f",
    "\ufeffthe heron",
    "the\u00a0heron\u3000waits\u200b",
    "&amp; &lt;b&gt; http://x.y/?a=1 1,000.5 it's well-known",
    "=1+1\t\"quoted\" 'a' \\n %s {0}",
    "\u4e2d\u6587\u6ca1\u6709\u7a7a\u683c",
    "\u0130\u0131\u00df\u1e9e",
    "the " * 10_000,
]
PART = st.one_of(
    st.sampled_from(["the heron", "waits", " ", "\t", "<unk>", "@@", "\u2581", ".", "\u2028"]),
    st.characters(codec="utf-8", exclude_characters="\n\0"),
)
SENTENCE = st.one_of(
    st.sampled_from(ODD_SENTENCES[:-1]), st.lists(PART, max_size=12).map("".join)
).map(lambda text: text.replace("\r", "\u00b7"))
# The file system's fixtures are made once for all examples: every example writes all it reads.
ONCE = [HealthCheck.function_scoped_fixture]


@settings(max_examples=30, suppress_health_check=ONCE)
@given(
    pairs=st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=6),
    end=st.sampled_from(["\n", "\r\n"]),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
    zipped=st.booleans(),
)
@example(
    pairs=[(text, ODD_SENTENCES[2]) for text in ODD_SENTENCES],
    end="\r\n",
    mark=b"\xef\xbb\xbf",
    zipped=True,
)
@example(pairs=[(text, text) for text in ODD_SENTENCES], end="\n", mark=b"", zipped=False)
def test_score_is_the_slow_oracles(
    pairs: list[tuple[str, str]],
    end: str,
    mark: bytes,
    zipped: bool,
    encoder_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hyps, refs = (list(side) for side in zip(*pairs, strict=True))
    if not mark:  # one that is text stands behind one that is none
        mark = b"\xef\xbb\xbf" if (hyps[0] + refs[0]).count("\ufeff") else b""
    suffix = ".gz" if zipped else ""
    paths = []
    for name, lines in (("ref", refs), ("hyp", hyps)):
        data = mark + "".join(line + end for line in lines).encode()
        path = tmp_path / f"{name}{suffix}"
        path.write_bytes(gzip.compress(data) if zipped else data)
        paths.append(str(path))
    capsys.readouterr()
    command = ["score", "-r", paths[0], "-i", paths[1], "--encoder", str(encoder_folder), "--json"]
    assert main(command) == 0
    found = {entry["name"]: entry["score"] for entry in json.loads(capsys.readouterr().out)}
    for name, value in Oracle(encoder_folder).corpus(hyps, refs).items():
        assert found[name] == pytest.approx(value, abs=1e-3), name


@settings(max_examples=40, suppress_health_check=ONCE)
@given(
    lines=st.lists(
        st.binary(max_size=12) | st.lists(PART, max_size=8).map(lambda p: "".join(p).encode()),
        max_size=10,
    )
)
def test_filter_pairs_accounts_for_every_line(
    lines: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "in.tsv", tmp_path / "out.tsv"
    good = b"the heron waits\tbeside cold water\n"
    path.write_bytes(good + b"\n".join(lines))
    capsys.readouterr()
    assert main(["filter-pairs", str(path), "--output", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    raw = path.read_bytes().split(b"\n")
    raw = raw[:-1] if raw[-1] == b"" else raw
    assert len(raw) == report["read"] + sum(report["skipped_lines"].values())
    assert report["read"] == report["kept"] + sum(report["removed"].values())
    kept = out.read_bytes().split(b"\n")[:-1]
    assert len(kept) == report["kept"] >= 1
    source = iter(line.removesuffix(b"\r").removeprefix(b"\xef\xbb\xbf") for line in raw)
    assert all(any(line == other.rstrip(b"\r") for other in source) for line in kept)  # in order


ENTRY = st.tuples(st.integers(0, 3), st.floats(0, 1).map(lambda value: round(value, 4)))


@settings(max_examples=60, suppress_health_check=ONCE)
@given(
    entries=st.lists(
        st.one_of(ENTRY, SENTENCE, st.text(alphabet='{}": valid_num_updates|0', max_size=9))
    ),
    kind=st.sampled_from(["json", "simple"]),
)
def test_logs_between_other_lines(entries: list[object], kind: str, tmp_path: Path) -> None:
    lines, expected, update = [], {}, 0
    for entry in entries:
        if isinstance(entry, str):
            lines.append(f"2026-01-01 | INFO | {entry}" if "valid" in entry else entry)
            continue
        assert isinstance(entry, tuple)
        update, cost = update + entry[0], entry[1]
        expected[update] = {"cost": cost}
        if kind == "json":
            values = {"valid_cost": str(cost), "valid_num_updates": str(update), "valid_x": None}
            lines.append(f"2026-01-01 | INFO | valid | {json.dumps(values)}")
        else:
            lines.append(f"x | valid on 'valid' subset | cost {cost} | num_updates {update}")
    path = tmp_path / "log"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    if expected:
        assert read_validations(str(path), "--log") == expected
    else:
        with pytest.raises(ValueError, match="has no validation lines"):
            read_validations(str(path), "--log")


@settings(max_examples=60, suppress_health_check=ONCE)
@given(lists=st.lists(st.tuples(SENTENCE, st.lists(SENTENCE, min_size=2, max_size=3)), min_size=1))
def test_nbest_lists_come_back(lists: list[tuple[str, list[str]]], tmp_path: Path) -> None:
    lines = ["2026 | INFO | loading", "S-0\tnoise", "H-0\t-1\tnoise"]
    dumped = []
    for number, (ref, hyps) in enumerate(lists):
        lines += [f"T-{number}\t{ref}", *(f"D-{number}\t-{n}.5\t{h}" for n, h in enumerate(hyps))]
        scores = [-n - 0.5 for n in range(len(hyps))]
        dumped.append(json.dumps({"id": number, "ref": ref, "hyps": hyps, "scores": scores}))
    for content in (lines, dumped):
        path = tmp_path / "nbest"
        path.write_text("".join(f"{line}\n" for line in content), encoding="utf-8", newline="")
        found = read_nbest_lists(str(path), "--nbest-lists")
        assert [(one.ref, list(one.hyps)) for one in found] == lists
        assert all(one.scores == tuple(-n - 0.5 for n in range(len(one.hyps))) for one in found)


BAD = [b"\xff\xfea\0\n\0", b"a\0b\n", b"caf\xe9\n", b"\xed\xa0\x80\n", b"\xc0\xaf\n"]


@pytest.mark.parametrize("data", BAD)
def test_other_encodings_are_one_line(
    data: bytes, encoder_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good").write_bytes(b"a\n" * data.count(b"\n"))
    (tmp_path / "bad").write_bytes(data)
    good, bad = str(tmp_path / "good"), str(tmp_path / "bad")
    for command in (
        ["score", "-r", good, "-i", bad, "--encoder", str(encoder_folder)],
        ["report", "--ref", bad, "--sys", f"A={good}"],
        ["report", "--log", f"A={bad}"],
        ["report", "--nbest-lists", bad],
    ):
        assert main(command) == 2
        error = capsys.readouterr().err.strip().splitlines()[-1]
        assert error.startswith(f"simile {command[0]}: error: ") and "bad:1: not UTF-8" in error
