"""What a fine-tuning says of itself, by a clock that the test moves."""

from pathlib import Path

from simile_plugin.finetuning.begun import has_ended, note_end
from simile_plugin.finetuning.options import Options
from simile_plugin.finetuning.run import nothing_trained
from simile_plugin.finetuning.story import RunStory, make_story
from simile_plugin.risk import RiskSettings


def test_the_story_of_a_run() -> None:
    said: list[str] = []
    clock = [100.0]
    story = RunStory("half", 20, 30, 1200, "2e-4", 10, 50, say=said.append, now=lambda: clock[0])
    assert "20 of 30 sentences, 0.5 epochs of 1,200" in story.plan()  # 20 * 30 / 1200

    def validate(update: int, bleu: float, seconds: float) -> None:
        story.begin()
        clock[0] += seconds
        story.validation(update, {"cost": 0.5, "bleu": bleu, "length_ratio": 0.9, "loss": 9.0})
        story.begin()

    validate(0, 30.0, 8.0)
    assert said[0].split() == ["update", "cost", "BLEU", "length"]  # without an encoder no SIM
    assert said[1].split() == ["0", "0.5000", "30.00", "0.900"]
    for update in (5, 10):
        clock[0] += 5 * 2.0
        story.update(update)
    # 15 updates of 2 s and two validations of 8 s were left after the fifth
    assert said[2].strip() == "2 s an update: 46 s left"
    validate(10, 31.0, 12.0)
    # 10 updates of 2 s, and one validation of (8 + 12) / 2 s
    assert said[3].endswith("0.900   30 s left")
    validate(20, 30.5, 12.0)
    assert "left" not in said[4] and len(said) == 5
    assert story.best() == 10
    lines = [line.split() for line in story.table("before", 10).splitlines()]
    assert lines[1:3] == [
        ["before", "0.5000", "30.00", "0.900"],
        ["update", "10", "0.5000", "31.00", "0.900"],
    ]
    assert lines[3] == ["difference", "+0.0000", "+1.00", "+0.000"]


def test_validations_without_a_better_one_end_patience() -> None:
    story = RunStory("half", 900, 30, 1200, "2e-4", 100, 50, say=str)
    # The first one is that of the model before: only what training made counts.
    for update, bleu in ((0, 33.0), (100, 31.0), (200, 32.0), (300, 32.0), (400, 31.5)):
        story.validation(update, {"cost": 0.5, "bleu": bleu})
    assert [story.out_of_patience(patience) for patience in (0, 1, 2, 3)] == [
        *(False, True, True, False)
    ]
    assert story.best(since=1) == 200
    story.keeps_last = True  # as fairseq does; an equal validation is still no better one
    assert story.best(since=1) == 300 and story.out_of_patience(2)
    story.validation(500, {"cost": 0.5, "bleu": 32.1})
    assert not story.out_of_patience(1)


def test_the_best_is_by_the_metric_that_keeps_the_model() -> None:
    story = RunStory("half", 900, 30, 1200, "2e-4", 100, 50, say=str, metric="cost", highest=False)
    for update, cost, bleu in ((0, 0.5, 30.0), (100, 0.3, 31.0), (200, 0.4, 33.0)):
        story.validation(update, {"cost": cost, "bleu": bleu})
    assert story.best() == 100 and story.out_of_patience(1)
    assert story.metric_name == "cost"
    story.metric, story.highest = "chrf", True  # --best-checkpoint-metric=chrf
    assert story.metric_name == "chrF"


def test_a_run_that_goes_on_has_no_clock_before_it_begins() -> None:
    said: list[str] = []
    story = RunStory("bleu", 4, 1, 9, "1", 2, 1, say=said.append, now=lambda: 7.0)
    for update in (0, 2):  # read from its log
        story.validation(update, {"cost": 0.5, "bleu": 30.0 + update})
    assert story.done == 2 and not any("left" in line for line in said)


def test_a_run_that_patience_ended_goes_on_by_a_larger_one(tmp_path: Path) -> None:
    story = RunStory("half", 600, 30, 1200, "2e-4", 100, 50, say=str)
    for update, bleu in ((0, 30.0), (100, 32.0), (200, 31.0), (300, 31.5)):
        story.validation(update, {"cost": 0.5, "bleu": bleu})
    note_end(tmp_path, story, 2)
    assert [has_ended(tmp_path, 600, patience) for patience in (0, 1, 2, 3)] == [
        *(False, True, True, False)
    ]
    assert not has_ended(tmp_path, 700, 2)
    assert nothing_trained(Path("r"), story, 2) == (
        "nothing was trained: r ended after update 300 of 600, as the last 2 validations had no "
        "better BLEU; a larger --patience goes on"
    )
    story.updates = 300  # the last update and the end of patience coincide
    note_end(tmp_path, story, 2)
    assert not story.ended_early(2) and has_ended(tmp_path, 300, 3)
    assert "r has its 300 updates; for more give --max-upd" in nothing_trained(Path("r"), story, 2)


def test_each_device_has_its_batches() -> None:
    options = Options(output="r", batch_size=30, update_freq=2, max_updates=None)
    story = make_story(options, RiskSettings(), 1200, 50, devices=2)
    # 10 epochs of 1200 sentences, by 30 * 2 * 2 an update
    assert "100 of 120 sentences, 10.0 epochs of 1,200" in story.plan()
