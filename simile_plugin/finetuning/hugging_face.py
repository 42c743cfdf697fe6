"""A fine-tuning of a Hugging Face model from files: the work behind `simile finetune-hf`."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import errno
import hashlib
import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

# Before transformers: hides a broken torchaudio.
from simile_plugin.hugging_face import (
    Pairs,
    SimileRiskArguments,
    SimileRiskTrainer,
    last_checkpoint,
    load,
    mixed,
    positions,
    prefix_warning,
    read_pairs,
    with_adapters,
)

# isort: split
from transformers import TrainerCallback, TrainerState, set_seed
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.utils import ADAPTER_CONFIG_NAME, CONFIG_NAME

from simile_plugin.files import (
    InputError,
    check_standard_input,
    locked_folder,
    refuse_overwriting_input,
)
from simile_plugin.finetuning.average import Averager, average_folders
from simile_plugin.finetuning.begun import (
    Begun,
    Setting,
    has_ended,
    note_end,
    settings_of_measures,
    settings_of_objective,
    settings_of_updates,
    update_record,
)
from simile_plugin.finetuning.options import HuggingFaceOptions
from simile_plugin.finetuning.story import RunStory, make_story, say
from simile_plugin.risk import RiskSettings, draw_sample

logger = logging.getLogger(__name__)

ADAPTER = "adapter"  # folder within a run of adapters by themselves
AVERAGE = "average"  # folder within a run of several seeds


class HuggingFaceFinetuning:
    """A fine-tuning of an encoder-decoder of transformers.

    Args:
        options, risk: as given.
        reward: identity of what is trained on, see `check_reward`.

    Raises:
        InputError: for files that cannot be read, or would be written over.
    """

    def __init__(self, options: HuggingFaceOptions, risk: RiskSettings, reward: str) -> None:
        self.options, self.risk, self.reward = options, risk, reward
        # torchrun numbers its processes; the first one talks.
        first = os.environ.get("RANK", "0") == "0"
        self.say: Callable[[str], object] = say if first else str
        if options.hub_model_id and not options.push_to_hub:
            raise InputError(
                f"--hub-model-id: got {options.hub_model_id} without --push-to-hub; give both, or "
                "neither"
            )
        if options.push_to_hub and options.seeds > 1:
            raise InputError(
                f"--push-to-hub: got --seeds {options.seeds}, of which each writes a model; leave "
                "it out, and upload the folder that you choose: hf upload NAME FOLDER"
            )
        files = [(path, "--train") for path in options.train]
        files += [(path, "--valid") for path in options.valid or ()]
        if options.monolingual:
            files.append((options.monolingual, "--monolingual"))
        check_standard_input(files)
        inputs = [options.model, *(path for path, _ in files), *filter(None, [risk.simile_encoder])]
        refuse_overwriting_input(options.output, inputs)

    def train(self, run: Path, seed: int) -> RunStory:
        """Train in a folder, or go on there where a killed run ended; tell it and save.

        With validations, what is saved is the best model by them, that of MODEL where none was
        better. With adapters it is the model with them merged in, and they themselves in the folder
        `adapter`.

        Raises:
            InputError: for input that cannot work, and a full disk.
        """
        args = self._arguments(run, seed)
        with contextlib.ExitStack() as stack:
            stack.enter_context(full_disk_told(run))
            last = last_checkpoint(run)
            if last is None:
                _check_new(run)
            if args.process_index == 0:
                run.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked_folder(run))
            return self._train(args, run, last)

    def _arguments(self, run: Path, seed: int) -> SimileRiskArguments:
        options = self.options
        return SimileRiskArguments(
            output_dir=str(run),
            **vars(self.risk),
            max_steps=options.max_updates or 1,  # until the pairs are counted
            per_device_train_batch_size=options.batch_size,
            per_device_eval_batch_size=options.batch_size,
            gradient_accumulation_steps=options.update_freq,
            target_pieces=options.target_pieces,
            learning_rate=options.learning_rate,
            lr_scheduler_type=options.schedule,
            max_grad_norm=options.max_grad_norm,
            eval_strategy="steps" if options.valid else "no",
            eval_steps=options.valid_interval,
            save_steps=options.valid_interval,
            save_total_limit=3,  # the last one before the two that end a gamed run, too
            load_best_model_at_end=bool(options.valid),
            metric_for_best_model="bleu",
            greater_is_better=True,
            logging_steps=options.log_interval,
            seed=seed,
            bf16=options.bf16,
            fp16=options.fp16,
            use_cpu=not torch.accelerator.is_available(),  # else transformers refuses bf16 there
            push_to_hub=options.push_to_hub,
            hub_model_id=options.hub_model_id,
            hub_strategy="end",
            report_to="none",
            disable_tqdm=True,
        )

    def _train(self, args: SimileRiskArguments, run: Path, last: str | None) -> RunStory:
        """Load model and data, train from the checkpoint `last` or anew, save the best model."""
        options = self.options
        set_seed(args.seed)
        model, tokenizer = self._load()
        files = self._read_files(model, tokenizer)
        train, valid, more = files["--train"], files["--valid"], files["--monolingual"]
        assert train is not None
        begun = Begun(run, last is not None)
        settings = self._settings(model, files, args.seed)
        given = settings["--learning-rate"].value
        rate = begun.before.get("--learning-rate", given)  # which a run that goes on keeps
        # An epoch has all pairs once, and the other sources beside them.
        share = options.monolingual_share
        sentences = len(train) if more is None else round(len(train) / (1 - share))
        planned = dataclasses.replace(options, learning_rate=float(rate))
        validation_set = 0 if valid is None else len(valid)
        story = make_story(planned, self.risk, sentences, validation_set, args.world_size)
        story.say = self.say
        averaged = options.seeds > 1
        objective = settings_of_objective(vars(self.risk), averaged)
        objective["--target-pieces"] = Setting(options.target_pieces, binding=averaged)
        ended = bool(begun.before) and has_ended(run, story.updates, options.patience)
        if ended:  # of a run that goes on its trainer tells it
            begun.check(settings | objective, ended)
        else:
            settings["--learning-rate"] = Setting(rate)
            begun.check(settings)
            if args.process_index == 0:
                begun.note(settings | objective)
        story.say(f"model       {options.model}\n{story.plan()}\n")
        args.max_steps = story.updates
        if ended and holds_weights(run):
            StoryCallback(story, 0).tell_earlier(run)
            return story
        trainer = self._make_trainer(args, story, model, tokenizer, files)
        try:
            trainer.train(resume_from_checkpoint=last)
        except InputError as error:
            if trainer.risk_state.training:  # not at its end: the best model is not loaded
                raise
            self._save(trainer, run)
            raise InputError(f"{error}; {run} has the best model by validation") from error
        self._save(trainer, run)
        if args.process_index == 0:
            note_end(run, story, options.patience)
            update_record(run, known_pairs=story.known)
        return story

    def _make_trainer(
        self,
        args: SimileRiskArguments,
        story: RunStory,
        model: Any,
        tokenizer: Any,
        files: Mapping[str, Pairs | None],
    ) -> SimileRiskTrainer:
        """Make the trainer of a story, and say what it trains."""
        options = self.options
        train, valid, more = files["--train"], files["--valid"], files["--monolingual"]
        assert train is not None
        if options.lora:
            model = with_adapters(model, options.model, options.lora)
        trainer = SimileRiskTrainer(
            model,
            args,
            processing_class=tokenizer,
            train_dataset=train if more is None else mixed(train, more, options.monolingual_share),
            eval_dataset=valid,
        )
        if more is not None:
            trainer.reward.refuse_missing_references("--monolingual")
        trainer.risk_state.objective["--prefix"] = options.prefix  # for saved_prefix
        trainer.remove_callback(PrinterCallback)
        trainer.remove_callback(ProgressCallback)
        trainer.add_callback(StoryCallback(story, options.patience))
        if valid is not None and more is None and self.risk.mle_weight < 1:
            trainer.add_callback(KnownPairsCallback(trainer, story, sample_of(train)))
        trainer.command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        if trainer.translator.output is not None:
            story.say(f"target pieces: {trainer.translator.pieces}")
        if trainer.rows is not None:
            story.say(f"trained rows: {len(trainer.rows):,}, of target pieces and sources")
        self._take_prefix(trainer, tokenizer)
        return trainer

    def _take_prefix(self, trainer: SimileRiskTrainer, tokenizer: Any) -> None:
        """Take --prefix off the sources that a reward reads."""
        if self.options.prefix:
            text = trainer.translator.text
            text.prefix = text.strings([tokenizer(self.options.prefix).input_ids])[0]

    def model(self, run: Path, validated: bool) -> Path:
        """Return where a training leaves its model, the best by validation if there were any."""
        return run

    def average(self, models: Sequence[Path], run: Path) -> Path:
        """Write the mean of models into a folder, and return where it is."""
        mean = run / AVERAGE
        args = self._arguments(mean, self.options.seed)
        with args.main_process_first(desc="average"):
            if args.process_index == 0:
                paths = [*map(str, models)]
                average_folders(paths, Averager(paths), str(mean))
        return mean

    def validate(self, model: Path, run: Path) -> dict[str, float]:
        """Return the metrics of a model on the validation set, as a training has them."""
        options = dataclasses.replace(self.options, model=str(model))
        loaded, tokenizer = load(options.model, options.source_lang, options.target_lang)
        args = self._arguments(run / AVERAGE, options.seed)
        trainer = SimileRiskTrainer(
            loaded,
            args,
            processing_class=tokenizer,
            eval_dataset=self._read_files(loaded, tokenizer)["--valid"],
        )
        self._take_prefix(trainer, tokenizer)
        trainer.remove_callback(PrinterCallback)
        metrics = trainer.evaluate()
        return {name.removeprefix("eval_"): value for name, value in metrics.items()}

    def next_steps(self, model: Path, runs: Sequence[Path]) -> str:
        """Return how the model is used; its path is the last line."""
        text = "next: AutoModelForSeq2SeqLM.from_pretrained loads this folder as any other:"
        return f"{text}\n{model}"

    def _load(self) -> tuple[Any, Any]:
        options = self.options
        return load(options.model, options.source_lang, options.target_lang)

    def _read_files(self, model: Any, tokenizer: Any) -> dict[str, Pairs | None]:
        """Return the pairs of the files by flag; None for a flag that was not given."""
        options = self.options
        if doubt := prefix_warning(tokenizer, options.prefix):
            logger.warning(doubt)
        most = min(positions(model, side) for side in ("encoder", "decoder"))
        length = int(min(options.max_length, most))
        given = {
            "--train": options.train,
            "--valid": options.valid,
            "--monolingual": [options.monolingual] if options.monolingual else None,
        }
        return {
            flag: read_pairs(tokenizer, paths, flag, length, options.prefix) if paths else None
            for flag, paths in given.items()
        }

    def _settings(
        self, model: Any, files: Mapping[str, Pairs | None], seed: int
    ) -> dict[str, Setting]:
        """Return what a run is begun with; files and the model by their content."""
        options = self.options
        settings = {
            "MODEL": Setting(_digest_of_model(model), f"another model than {options.model}"),
            "--lora": Setting(str(options.lora)),
            "--source-lang": Setting(str(options.source_lang)),
            "--target-lang": Setting(str(options.target_lang)),
            "--prefix": Setting(options.prefix),
            "--monolingual-share": Setting(str(options.monolingual_share)),
            "--max-length": Setting(str(options.max_length), binding=False),
            "--learning-rate": Setting(str(options.learning_rate), binding=False),
        }
        settings |= settings_of_measures(self.reward, vars(self.risk))
        settings |= settings_of_updates(dataclasses.replace(options, seed=seed))
        for flag, pairs in files.items():
            digest = "" if pairs is None else pairs.digest()
            settings[flag] = Setting(digest, f"another {flag}")
        return settings

    def _save(self, trainer: SimileRiskTrainer, run: Path) -> None:
        """Save the best model by validation, which is the last one where there was none."""
        options = self.options
        if trainer.starts_best:
            best = self._load()[0]
            if options.lora:  # adapters that were not trained change nothing
                best = with_adapters(best, options.model, options.lora)
            trainer.model.load_state_dict(best.state_dict())
            first = next(log for log in trainer.state.log_history if log["step"] == 0)
            trainer.state.best_metric, trainer.state.best_global_step = first["eval_bleu"], 0
            trainer.state.best_model_checkpoint = None
        if options.lora:
            if trainer.is_world_process_zero():
                trainer.model.save_pretrained(run / ADAPTER)
            trainer.model = trainer.model.merge_and_unload()
        trainer.save_model()
        trainer.save_state()

    def end(self, story: RunStory, run: Path) -> str:
        """Return what is said where a training has ended: its model, and what to do next."""
        lines = []
        if story.validations:
            best, kept = story.best(), story.best(since=1)
            lines.append(f"on the validation set:\n{story.table('before', kept)}\n")
            lines.append(
                f"{run}: best BLEU on validation, update {kept}"
                if best
                else f"no validation was better than {self.options.model} itself: {run} holds that "
                "model as it was; docs/how-to/bleu-falls.md says what to try"
            )
        return "\n".join([*lines, self.next_steps(run, [run])])


class StoryCallback(TrainerCallback):
    """Passes a training on to its story, with the validations of before it was stopped.

    Args:
        patience: validations in a row without a better BLEU that end the training; 0: none do.
    """

    def __init__(self, story: RunStory, patience: int) -> None:
        self.story, self.patience = story, patience

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Tell the validations that a run which goes on has had."""
        for logged in state.log_history:
            self._tell(logged["step"], logged)
        self.story.done = self.story.earlier = state.global_step
        self.story.begin()

    def tell_earlier(self, run: Path) -> None:
        """Tell a training that has ended, from what its folder keeps of it."""
        state = TrainerState.load_from_json(str(run / TRAINER_STATE_NAME))
        self.on_train_begin(None, state, None)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count an update."""
        self.story.update(state.global_step)

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: dict[str, float], **kwargs: Any
    ) -> None:
        """Tell a validation."""
        self._tell(state.global_step, metrics)
        self.story.begin()
        if self.story.validations and self.story.out_of_patience(self.patience):
            control.should_training_stop = True

    def _tell(self, step: int, metrics: dict[str, float]) -> None:
        if "eval_cost" in metrics and step not in self.story.validations:
            named = {name.removeprefix("eval_"): value for name, value in metrics.items()}
            self.story.validation(step, named)


class KnownPairsCallback(TrainerCallback):
    """Validates on some training sentences before the first update, and says what gain to expect.

    Args:
        sample: of the training pairs.
    """

    def __init__(self, trainer: SimileRiskTrainer, story: RunStory, sample: Pairs) -> None:
        self.trainer, self.story, self.sample = trainer, story, sample

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: dict[str, float], **kwargs: Any
    ) -> None:
        """Follow the validation before the first update."""
        if state.global_step == 0 and metrics.get("eval_cost") and not self.story.known:
            found = self.trainer.evaluate(self.sample, metric_key_prefix="known")
            self.story.known_pairs(found["known_cost"], len(self.sample))
            self.story.begin()


def sample_of(pairs: Pairs) -> Pairs:
    """Return some of the pairs, the same at every call."""
    chosen = draw_sample(range(len(pairs)))
    found = copy.copy(pairs)  # what was to be said of the text has been said
    found.sources = [pairs.sources[i] for i in chosen]
    found.targets = [pairs.targets[i] for i in chosen]
    return found


def holds_weights(run: Path) -> bool:
    """Return whether a folder has a model's weights, which a user may have taken away."""
    return any(run.glob("*.safetensors"))


def _check_new(run: Path) -> None:
    """Refuse to write over what is no run that can go on."""
    if run.exists() and not run.is_dir():
        raise InputError(f"--output: {run} is a file, expected a folder; name another one")
    if any((run / name).exists() for name in (CONFIG_NAME, ADAPTER_CONFIG_NAME)):
        raise InputError(
            f"--output: {run} holds a model and no checkpoint to go on from, and is not "
            "replaced; name another folder"
        )


def _digest_of_model(model: Any) -> str:
    weights = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        some = tensor.detach().flatten()[:256].double().cpu().tolist()
        weights.update(repr((name, [*tensor.shape], some)).encode())
    return weights.hexdigest()[:12]


@contextlib.contextmanager
def full_disk_told(folder: Path) -> Iterator[None]:
    """Make one line of what is raised where a disk is full; each library has its own errors."""
    try:
        yield
    except Exception as error:
        if not _is_full(error):
            raise
        raise InputError(
            f"--output: the disk of {folder} is full, or its quota; make room and repeat the "
            "command, which goes on from the last checkpoint that is whole"
        ) from error


# OSError's, safetensors' and tokenizers' words, and what torch.save says of a file cut short.
FULL = ("No space left on device", "Disk quota exceeded", "os error 28", "enforce fail at inline_c")


def _is_full(error: BaseException | None) -> bool:
    while error is not None:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            return True
        if not isinstance(error, InputError) and any(words in str(error) for words in FULL):
            return True
        error = error.__cause__ or error.__context__
    return False
