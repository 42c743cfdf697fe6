"""One fine-tuning from files: the work behind `simile finetune-hf`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedConfig, set_seed
from transformers.trainer_utils import get_last_checkpoint

from simile_plugin.files import InputError, read_lines
from simile_plugin.hugging_face.arguments import SimileRiskArguments
from simile_plugin.hugging_face.models import special_tokens
from simile_plugin.hugging_face.text import examples
from simile_plugin.hugging_face.trainer import SimileRiskTrainer


@dataclass(frozen=True)
class Job:
    """What is fine-tuned on which files.

    Attributes:
        model: a local folder or the name of a model on the hub.
        train, valid: files of sources and targets; no validation without ``valid``.
        source_lang, target_lang: codes of the tokenizer, where it has several.
        prefix: put before every source (T5).
        max_length: tokens of a source or a target; what is longer is cut.
        lora: rank of peft's adapters; 0 trains the whole model.
    """

    model: str
    train: tuple[str, str]
    valid: tuple[str, str] | None = None
    source_lang: str | None = None
    target_lang: str | None = None
    prefix: str = ""
    max_length: int = 128
    lora: int = 0


def load(job: Job) -> tuple[Any, Any]:
    """The model and its tokenizer.

    Raises:
        InputError: where there is none, or it is no encoder-decoder.
    """
    languages = {"src_lang": job.source_lang, "tgt_lang": job.target_lang}
    given = {name: code for name, code in languages.items() if code is not None}
    try:
        config, _ = PreTrainedConfig.get_config_dict(job.model)
        if not config.get("is_encoder_decoder", False):
            raise InputError(
                f"MODEL: {job.model} has no encoder; expected an encoder-decoder (Marian, M2M-100, "
                "mBART, T5, ...)"
            )
        tokenizer = AutoTokenizer.from_pretrained(job.model, **given)
        model = AutoModelForSeq2SeqLM.from_pretrained(job.model)
    except InputError:
        raise
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"MODEL: {job.model} cannot be loaded: {reason[:300]}") from error
    special_tokens(model, tokenizer)
    return model, tokenizer


def read_pairs(job: Job, tokenizer: Any, files: Sequence[str], name: str) -> list[dict[str, Any]]:
    """The examples of two parallel files.

    Raises:
        InputError: for files of different lengths, without a line, or with an empty line.
    """
    sources, targets = (read_lines(path, f"--{name}") for path in files)
    if len(sources) != len(targets) or not sources:
        raise InputError(
            f"--{name}: {files[0]} has {len(sources)} lines, {files[1]} {len(targets)}; expected "
            "as many, and at least one"
        )
    sources = [job.prefix + source if source.strip() else source for source in sources]
    return examples(tokenizer, sources, targets, job.max_length, files[1])


def finetune(job: Job, args: SimileRiskArguments) -> Path:
    """Fine-tune and save; goes on where a killed run ended.

    Returns:
        the folder of the fine-tuned model, which `from_pretrained` loads.

    Raises:
        InputError: for input that cannot work.
    """
    set_seed(args.seed)
    model, tokenizer = load(job)
    train = read_pairs(job, tokenizer, job.train, "train")
    valid = read_pairs(job, tokenizer, job.valid, "valid") if job.valid else None
    if job.lora:
        from peft import LoraConfig, get_peft_model

        settings = LoraConfig(task_type="SEQ_2_SEQ_LM", r=job.lora, target_modules="all-linear")
        model = get_peft_model(model, settings)
    trainer = SimileRiskTrainer(
        model, args, processing_class=tokenizer, train_dataset=train, eval_dataset=valid
    )
    assert args.output_dir is not None
    folder = Path(args.output_dir)
    last = get_last_checkpoint(args.output_dir) if folder.is_dir() else None
    trainer.train(resume_from_checkpoint=last)
    trainer.save_model()
    trainer.save_state()
    return folder
