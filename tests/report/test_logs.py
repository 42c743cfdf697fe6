"""Validations read from training logs, as fairseq's own progress bars write them."""

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from fairseq.logging import progress_bar

from simile_plugin.report.inputs.logs import Validations, read_validations

STATS = [
    {"loss": 3.25, "cost_bleu": 0.6125, "cost_simile": 0.31, "num_updates": 0},
    {"loss": 3.0, "cost_bleu": 0.58, "cost_simile": 0.2875, "num_updates": 1500},
]


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What fairseq's logger prints while the test runs, in fairseq-train's format."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter("%(asctime)s | %(levelname)s | %(name)s | %(message)s"))
    logger = progress_bar.logger
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    yield text
    logger.removeHandler(handler)
    logger.setLevel(level)
    logger.propagate = propagate


@pytest.mark.parametrize("log_format", ["json", "simple", "tqdm"])
def test_what_fairseq_writes_is_read(log_format: str, stream: io.StringIO, tmp_path: Path) -> None:
    for epoch, stats in enumerate(STATS, start=1):
        bar = progress_bar.progress_bar(
            [0, 1], log_format=log_format, epoch=epoch, prefix="valid on 'valid' subset"
        )
        bar.print(stats, tag="valid", step=stats["num_updates"])
        train = progress_bar.progress_bar([0, 1], log_format=log_format, epoch=epoch)
        train.print({"loss": 9.0, "num_updates": 1500}, tag="train", step=1500)
    log = tmp_path / "train.log"
    log.write_text(stream.getvalue())
    read = read_validations(str(log), "--log")
    assert list(read) == [0, 1500]
    for stats in STATS:
        numbers = read[int(stats["num_updates"])]
        for key in ("loss", "cost_bleu", "cost_simile"):
            assert numbers[key] == pytest.approx(stats[key], abs=1e-6)


def json_line(update: int, cost: str, subset: str = "valid") -> str:
    return (
        f'2024-05-01 10:00:00 | INFO | {subset} | {{"epoch": 1, "{subset}_loss": "3.1", '
        f'"{subset}_cost_bleu": "{cost}", "{subset}_num_updates": "{update}"}}'
    )


def read(tmp_path: Path, *lines: str, subset: str = "valid") -> Validations:
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines))
    return read_validations(str(path), "--log", subset)


def costs(validations: Validations) -> dict[int, float]:
    return {update: numbers["cost_bleu"] for update, numbers in validations.items()}


def test_a_file_of_messages_alone_is_read(tmp_path: Path) -> None:
    # fairseq's --log-file has no time stamps
    bare = json_line(100, "0.5").partition(" | valid | ")[2]
    simple = "epoch 002 | valid on 'valid' subset | loss 3 | cost_bleu 0.4 | num_updates 200"
    assert costs(read(tmp_path, bare, simple)) == {100: 0.5, 200: 0.4}


def test_a_line_cut_short_is_passed_over(tmp_path: Path) -> None:
    whole = json_line(200, "0.4")
    for length in range(len(whole)):
        assert costs(read(tmp_path, json_line(100, "0.5"), whole[:length])) == {100: 0.5}
    simple = "epoch 002 | valid on 'valid' subset | loss 3 | cost_bleu 0.4 | num_upd"
    assert costs(read(tmp_path, json_line(100, "0.5"), simple)) == {100: 0.5}
    before = [json_line(update, "0.5") for update in (0, 100)]
    for cut in ("ates 2", "ates 20"):  # of 200
        assert costs(read(tmp_path, *before, simple + cut)) == {0: 0.5, 100: 0.5}


def test_a_run_resumed_from_an_earlier_checkpoint_drops_the_lost_part(tmp_path: Path) -> None:
    lost = [json_line(update, "0.6") for update in (0, 100, 200, 300)]
    assert costs(read(tmp_path, *lost, json_line(100, "0.5"), json_line(150, "0.4"))) == {
        0: 0.6,
        100: 0.5,
        150: 0.4,
    }


def test_a_log_without_validation_is_refused(tmp_path: Path) -> None:
    train = '2024-05-01 | INFO | train | {"train_loss": "3", "train_num_updates": "10"}'
    with pytest.raises(
        ValueError, match=r"^--log: .*train.log has no validation lines among its 1"
    ):
        read(tmp_path, train)
    with pytest.raises(
        ValueError, match=r"no validation on 'valid', only on test; .*--valid-subset"
    ):
        read(tmp_path, json_line(1, "0.5", "test"))
