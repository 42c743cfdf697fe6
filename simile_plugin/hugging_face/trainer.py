"""Minimum risk training of Hugging Face encoder-decoders: one Seq2SeqTrainer, another loss."""

from __future__ import annotations

import logging
import math
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers import Seq2SeqTrainer

from simile_plugin import risk
from simile_plugin.encoder import keep_freed_memory
from simile_plugin.files import InputError
from simile_plugin.hugging_face.arguments import SimileRiskArguments
from simile_plugin.hugging_face.metrics import Sums, metrics_of
from simile_plugin.hugging_face.model_card import write_model_card
from simile_plugin.hugging_face.models import base_of, keep_unsaved_embeddings, special_tokens
from simile_plugin.hugging_face.state import TRAINED_ROWS, RiskState
from simile_plugin.hugging_face.target_pieces import choose_output, choose_rows
from simile_plugin.hugging_face.text import REFERENCE, Collator, Pairs, WithReferences
from simile_plugin.hugging_face.trained_rows import RowsCallback, TrainedRows
from simile_plugin.hugging_face.translator import TransformersTranslator

logger = logging.getLogger(__name__)

# Methods of the library's own that its next version may rename: nothing else would say so.
OVERRIDDEN = ("get_batch_samples", "_get_grad_norm", "_evaluate", "_run_epoch")
if lacking := [name for name in OVERRIDDEN if not hasattr(Seq2SeqTrainer, name)]:
    raise ImportError(
        f"transformers {transformers.__version__}: its Trainer has no {lacking[0]}; install a "
        "version that simile-plugin's extra hf names"
    )


class SimileRiskTrainer(Seq2SeqTrainer):
    """L = gamma L_TokLS + (1 - gamma) L_Risk over n-best lists (Wieting et al. 2019, eq. 1).

    Takes what Seq2SeqTrainer takes. Examples have input_ids, attention_mask and labels, as a
    tokenizer makes them with ``text_target``; of those whose labels are None or empty only the risk
    is trained on, by a reward that reads no reference. A sentence's loss does not depend on its
    batch, and an update's gradient is the mean over its sentences, in however many batches and
    processes.

    Args:
        model: an encoder-decoder, also with peft's adapters.
        args: the settings, see :class:`SimileRiskArguments`.
        processing_class: its tokenizer, with the languages set if it has several.

    Raises:
        InputError: for a model, a tokenizer or a setting that cannot work.
    """

    args: SimileRiskArguments

    def __init__(self, model: Any, args: SimileRiskArguments, **kwargs: Any) -> None:
        tokenizer = kwargs.get("processing_class")
        check_given(kwargs, args)
        base = base_of(model)
        check_adapters(model, base)
        warn_of_half_weights(model)
        keep_unsaved_embeddings(base)
        check_parallel(args)
        check_checkpointing(base)
        keep_freed_memory()
        if kwargs.get("data_collator") is None:
            kwargs["data_collator"] = Collator(tokenizer)
        special = special_tokens(base, tokenizer)
        if special.language is not None:
            # A plain `generate` of what is saved finds them, as training has them.
            # None is said, too: what the model came with would be forced on every candidate.
            base.generation_config.decoder_start_token_id = special.start
            base.generation_config.forced_bos_token_id = special.tag
        self.reward = risk.ListReward(args, args.seed)
        self.risk_state = RiskState(args, self.reward.optimised(args, risk.RiskSettings))
        super().__init__(model=model, args=args, **kwargs)
        self.add_callback(self.risk_state)
        self.eval_dataset: Any = self._with_references(kwargs.get("eval_dataset"))
        self.loss_is_scaled_for_ga = True  # by compute_loss, which knows an update's sentences
        self.translator = TransformersTranslator(base, tokenizer, special, args, self.accelerator)
        sets = (kwargs.get("train_dataset"), kwargs.get("eval_dataset"))
        output = choose_output(args.target_pieces, base, tokenizer, special, sets)
        self.translator.output = output
        self.risk_state.objective["--target-pieces"] = self.translator.pieces
        self.rows: TrainedRows | None = None
        if output is not None and self.optimizer is None:  # which would have the whole matrix
            self.rows = choose_rows(output, kwargs.get("train_dataset"))
        self.base_model, self.command = str(getattr(base.config, "_name_or_path", "")), ""
        self.portions = risk.Portions(args.risk_max_tokens)
        self.objective = risk.Objective.of(args)
        self.clock = risk.Stopwatch()
        self.logged, self.update, self.evaluated = Sums(), Sums(), Sums()

    def risk_loss(self, model: nn.Module, inputs: dict[str, Tensor]) -> tuple[Tensor, Any]:
        """Compute the loss of a batch, summed over its sentences, ready for ``backward``, and sums.

        Args:
            model: the model in its wrappers; called once.
            inputs: input_ids, attention_mask and labels.
        """
        self.clock = risk.Stopwatch()
        update = risk.risk_update(
            self.translator,
            model,
            inputs,
            reward=self.reward,
            objective=self.objective,
            length_control=self.risk_state.length_control,
            portions=self.portions,
            clock=self.clock,
            training=model.training,
        )
        return update.loss, update.sums | {"similarity": float("sim" in update.sums)}

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Tensor:
        """This batch's part of an update's loss; DDP divides gradients by the processes."""
        loss, sums = self.risk_loss(model, inputs)
        self.logged.add(sums)
        self.update.add(sums)
        sentences = sentences_of(inputs) if num_items_in_batch is None else num_items_in_batch
        processes = 1 if num_items_in_batch is None else self.accelerator.num_processes
        return loss * (processes / sentences)

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list[Any], int]:
        """Return the batches of an update, and its sentences over all processes."""
        batches, _ = super().get_batch_samples(*args, **kwargs)
        sentences = torch.tensor(sum(map(sentences_of, batches)))
        total = self.accelerator.reduce(sentences.to(self.accelerator.device), reduction="sum")
        return batches, int(total)

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        """Return the norm that is logged; the last place before the optimizer's step.

        A NaN or infinite gradient is dropped: without gradients an optimizer changes nothing. Under
        --fp16 the loss scale decides. Gradients are summed over processes: all skip, or none.
        """
        norm = super()._get_grad_norm(model, grad_norm)
        finite = bool(torch.isfinite(torch.as_tensor(norm)).all())
        sums = {"updates": 1.0 / self.accelerator.num_processes}
        total, self.update = self.update.total(self.accelerator), Sums()
        if finite:
            self.risk_state.watch.nonfinite = 0
            self.risk_state.length_control.update(total)
        else:
            sums["skipped"] = sums["updates"]
            if self.accelerator.scaler is None:
                limit, update = self.args.risk_max_skipped, self.state.global_step + 1
                self.risk_state.watch.skip(limit, update)
                model.zero_grad(set_to_none=True)
                norm = 0.0
        self.logged.add(sums)
        return norm

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log a training interval's metrics beside its loss."""
        if "loss" in logs:
            found = metrics_of(self.logged.total(self.accelerator))
            self.logged = Sums()
            logs = {**found, **logs}
        # Without a reference there is no likelihood, and JSON knows no infinity.
        logs = {k: v for k, v in logs.items() if not isinstance(v, float) or math.isfinite(v)}
        super().log(logs, *args, **kwargs)

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: Any = None,
        **gen_kwargs: Any,
    ) -> tuple[None, Tensor | None, Tensor | None]:
        """Add up a validation batch, without what fills the last batches of all processes up.

        Returns:
            as any Seq2SeqTrainer with ``predict_with_generate`` what `generate` writes, and labels.
        """
        inputs = {k: v for k, v in self._prepare_inputs(inputs).items() if v is not None}
        texts = inputs.pop(REFERENCE, None)
        writes = self.args.predict_with_generate and not prediction_loss_only
        if "labels" in inputs or not writes:
            state, size = self.accelerator.gradient_state, sentences_of(inputs)
            if state.end_of_dataloader and state.remainder > 0:
                before = self.accelerator.process_index * size
                size = min(size, max(0, state.remainder - before))
            if size:
                part = {name: value[:size] for name, value in inputs.items()}
                self.translator.references = None if texts is None else texts[:size]
                with torch.no_grad():
                    self.evaluated.add(self.risk_loss(risk.unwrap(model), part)[1])
                self.translator.references = None
        if not writes:
            return None, None, None
        asked = self.translator.special.first | self._gen_kwargs | gen_kwargs
        return None, *super().prediction_step(model, inputs, False, ignore_keys, **asked)[1:]

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """Return the batches of a validation set, of `Pairs` with the text of their references."""
        return super().get_eval_dataloader(self._with_references(eval_dataset))

    def _with_references(self, datasets: Any) -> Any:
        if isinstance(datasets, dict):
            return {name: self._with_references(dataset) for name, dataset in datasets.items()}
        if isinstance(datasets, Pairs) and type(self.data_collator) is Collator:
            return WithReferences(datasets)
        return datasets

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        if REFERENCE not in self._signature_columns:
            self._signature_columns.append(REFERENCE)

    @risk.attention_without_plans()
    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Metrics of a validation, before they are logged."""
        self.evaluated = Sums()
        output = super().evaluation_loop(*args, **kwargs)
        prefix = kwargs.get("metric_key_prefix", "eval")
        found = metrics_of(self.evaluated.total(self.accelerator))
        named = {f"{prefix}_{name}": value for name, value in found.items()}
        return output._replace(metrics=named | output.metrics)  # those of compute_metrics go first

    def _evaluate(self, trial: Any, ignore_keys: Any, skip_scheduler: bool = False) -> Any:
        """Validate, but not a run that is resumed: it was validated at its start."""
        if skip_scheduler and self.state.global_step:
            return {}
        return super()._evaluate(trial, ignore_keys, skip_scheduler=skip_scheduler)

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        """Make no update in a run that has had them all; transformers would make one."""
        if self.state.global_step < self.state.max_steps:
            super()._run_epoch(*args, **kwargs)
        else:  # of a stream it has epochs without end
            self.control.should_training_stop = True

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model as ever, with a model card where it is no checkpoint."""
        if not _internal_call and self.is_world_process_zero():
            write_model_card(self, Path(output_dir or str(self.args.output_dir)))
        forget_truncation(self.processing_class)
        super().save_model(output_dir, _internal_call)

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Warn of weights that a checkpoint lacks, but not of those that are tied or computed."""
        missing = load_result.missing_keys
        parameters = dict(self.model.named_parameters(remove_duplicate=False))
        loaded = {id(p) for name, p in parameters.items() if name not in missing}
        unsaved = getattr(base_of(self.model), "_keys_to_ignore_on_save", None) or ()
        known = {name for name, p in parameters.items() if id(p) in loaded} | {*unsaved}
        lacking = [name for name in missing if name not in known]
        super()._issue_warnings_after_load(load_result._replace(missing_keys=lacking))

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write the model card that is pushed to the hub."""
        if self.is_world_process_zero():
            write_model_card(self, Path(str(self.args.output_dir)))

    def init_hf_repo(self, *args: Any, **kwargs: Any) -> None:
        """Make the repository on the hub, before a training.

        Raises:
            InputError: where the hub does not answer, or refuses.
        """
        with hub_errors_told("expected a network and a token that may write: hf auth login"):
            super().init_hf_repo(*args, **kwargs)

    def push_to_hub(self, *args: Any, **kwargs: Any) -> Any:
        """Upload the folder of the run; what cannot be uploaded is saved there.

        Raises:
            InputError: where the hub does not answer, or refuses.
        """
        folder, name = self.args.output_dir, self.hub_model_id or self.args.hub_model_id or "NAME"
        advice = f"the model is saved in {folder}: hf upload {name} {folder}"
        with hub_errors_told(advice):
            return super().push_to_hub(*args, **kwargs)

    @property
    def starts_best(self) -> bool:
        """Return whether no validation was better than the one before the first update."""
        name = f"eval_{(self.args.metric_for_best_model or '').removeprefix('eval_')}"
        seen = [log for log in self.state.log_history if name in log]
        first = [log[name] for log in seen if log["step"] == 0]
        later = [log[name] for log in seen if log["step"] > 0]
        better = operator.gt if self.args.greater_is_better else operator.lt
        return bool(first and later) and not any(better(value, first[0]) for value in later)

    @contextmanager
    def _training_rows(self) -> Iterator[None]:
        """Within the block rows are trained in the place of the output layer, if some suffice."""
        rows, output = self.rows, self.translator.output
        if rows is None or output is None or not rows.fit(self.optimizer):
            self.risk_state.objective.pop(TRAINED_ROWS, None)
            yield
            return
        self.risk_state.objective[TRAINED_ROWS] = rows.signature
        callback = RowsCallback(rows)
        self.add_callback(callback)
        try:
            with output.training(rows):
                yield
        finally:
            self.remove_callback(callback)

    @risk.attention_without_plans()
    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train as ever; what the watch stops is saved, then an error.

        Raises:
            InputError: with what was found, and advice.
        """
        with self._training_rows():
            found = super().train(*args, **kwargs)
        if self.args.load_best_model_at_end and self.starts_best:
            logger.warning(
                f"no validation was better, by {self.args.metric_for_best_model}, than the one "
                "before the first update: the model that the training began from is the best"
            )
        if stop := self.risk_state.watch.stop:
            raise InputError(f"training stopped: {stop}")
        return found


def forget_truncation(tokenizer: Any) -> None:
    """Keep how training text was cut out of the file of a fast tokenizer, where others heed it."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.no_truncation()
        backend.no_padding()


@contextmanager
def hub_errors_told(advice: str) -> Iterator[None]:
    """Make one line of what the hub's library raises, whose errors have no class in common."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"--push-to-hub: {reason}; {advice}") from error


def check_given(given: dict[str, Any], args: Any) -> None:
    """Refuse what Seq2SeqTrainer takes and a risk training cannot use.

    Raises:
        InputError: naming the argument.
    """
    if given.get("processing_class") is None:
        raise InputError("processing_class: not given; expected the tokenizer of the model")
    for name in ("model_init", "compute_loss_func"):
        if given.get(name) is not None:
            raise InputError(f"{name}: not supported: model and loss are given; leave it out")
    if given.get("compute_metrics") is not None and not args.predict_with_generate:
        raise InputError(
            "compute_metrics: got a function, but a validation makes no logits for it; expected "
            "predict_with_generate=True, by which it gets translations"
        )


def check_adapters(model: nn.Module, base: nn.Module) -> None:
    """Raise InputError for what trains beside a model's layers: it would have no part in them."""
    own = {id(p) for p in base.parameters()}
    if any(p.requires_grad and id(p) not in own for p in model.parameters()):
        raise InputError(
            f"model: what {type(model).__name__} trains is put before its input (prompts, "
            "prefixes), which is not supported; expected adapters within its layers, such as those "
            "of peft's LoraConfig"
        )


def check_checkpointing(base: nn.Module) -> None:
    """Raise InputError for layers that are computed again in PyTorch's older, reentrant way.

    It gives no gradient where no input of a layer has one, and it cannot be used twice in a step.
    """
    for module in base.modules():
        again = getattr(module, "_gradient_checkpointing_func", None)
        keywords = getattr(again, "keywords", {})
        if getattr(module, "gradient_checkpointing", False) and keywords.get("use_reentrant"):
            raise InputError(
                "model: its gradient checkpointing has use_reentrant=True, which is not supported; "
                "give gradient_checkpointing_enable({'use_reentrant': False})"
            )


def warn_of_half_weights(model: nn.Module) -> None:
    """Warn where what is trained is in half precision: transformers 5 loads it as it was saved."""
    types = {p.dtype for p in model.parameters() if p.requires_grad}
    for name in sorted(str(one) for one in types & {torch.float16, torch.bfloat16}):
        logger.warning(
            f"the model's weights are {name}, in which most of AdamW's steps are lost; load it by "
            "from_pretrained(..., dtype=torch.float32), and train with bf16=True or fp16=True"
        )


def sentences_of(inputs: dict[str, Any]) -> int:
    """Sentences of a batch.

    Raises:
        InputError: where it has no references, or does not say which tokens are padding.
    """
    if inputs.get("attention_mask") is None:
        raise InputError(
            "attention_mask: the batch has none; expected the one that a tokenizer makes beside "
            "input_ids (DataCollatorForSeq2Seq keeps it)"
        )
    if inputs.get("labels") is None:
        raise InputError(
            "labels: the data set has none; expected the references, as a tokenizer makes them "
            "with text_target (trainer.predict does without, with predict_with_generate=True)"
        )
    return len(inputs["labels"])


def check_parallel(args: Any) -> None:
    """Refuse what cuts a model's parameters up or copies it within a process.

    Raises:
        InputError: naming the flag.
    """
    if args.n_gpu > 1:
        raise InputError(
            f"{args.n_gpu} GPUs in one process; expected one: start a process for each by "
            "torchrun, or name one by CUDA_VISIBLE_DEVICES"
        )
    for name in ("fsdp", "deepspeed"):
        if getattr(args, name, None):
            raise InputError(f"--{name}: not supported; expected one process a GPU (torchrun)")
