"""The fairseq criterion ``simile_risk``: minimum risk training with a semantic reward."""

# No "from __future__ import annotations": fairseq reads the config's types at run time.
import functools
import itertools
import logging
import math
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Optional

import torch
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.models.nat import FairseqNATModel
from fairseq.utils import get_perplexity
from torch import Tensor, nn

from simile_plugin import risk
from simile_plugin.encoder import load_encoder
from simile_plugin.fairseq_training.candidates import (
    CandidateGenerator,
    CandidateOptions,
    RiskSet,
    part_of,
    unwrap,
)
from simile_plugin.fairseq_training.dump import RiskDump
from simile_plugin.fairseq_training.portions import Portion, Portions
from simile_plugin.fairseq_training.scoring import score_rows
from simile_plugin.fairseq_training.target_text import TargetText, moses_detokenizer
from simile_plugin.files import InputError
from simile_plugin.reward import (
    SIMILE_ALPHA,
    ListScores,
    Reward,
    check_tokenizer,
    corpus_bleu,
    score_lists,
    signature,
)

logger = logging.getLogger(__name__)

BEYOND_BLEU = "beyond-bleu"
GENERATION_DTYPES = {"model": None, "bf16": torch.bfloat16, "fp16": torch.float16}
# Fields of the configuration that change nothing in what is optimised.
NOT_OPTIMISED = {"_name", "risk_dump", "risk_max_tokens"}


@dataclass
class SimileRiskConfig(FairseqDataclass):
    """Flags of ``--criterion simile_risk``."""

    reward: str = field(
        default="simile",
        metadata={
            "help": "reward of a candidate in [0, 1]; the cost is 1 - reward: simile, bleu "
            "(sentence BLEU, +1 on orders 2 to 4), sim, half (the paper's half/half), a mix such "
            "as simile:0.7,bleu:0.3, or your own module:function, called with hypotheses "
            "(B lists of N strings), references and sources, returning B x N numbers"
        },
    )
    simile_encoder: Optional[str] = field(  # noqa: UP045 (fairseq cannot read str | None)
        default=None,
        metadata={"help": "folder of the reward encoder (made by simile train-encoder)"},
    )
    simile_alpha: float = field(
        default=SIMILE_ALPHA,
        metadata={"help": "exponent of SIMILE's length penalty (paper: 0.25)"},
    )
    mle_weight: float = field(
        default=0.3,
        metadata={
            "help": "gamma in L = gamma L_TokLS + (1 - gamma) L_Risk, from 0 (risk only) to 1 "
            "(paper: 0.2, 0.3 or 0.4, chosen on validation); its meaning depends on "
            "--risk-cost-scale"
        },
    )
    label_smoothing: float = field(
        default=0.1, metadata={"help": "label smoothing of L_TokLS (paper: 0.1)"}
    )
    risk_candidates: int = field(
        default=8, metadata={"help": "N, candidates a sentence (paper: 8)"}
    )
    risk_search: ChoiceEnum(["beam", "sampling"]) = field(  # type: ignore[valid-type]
        default="beam",
        metadata={"help": "candidates from beam search (paper) or by ancestral sampling"},
    )
    risk_diverse_groups: int = field(
        default=1,
        metadata={
            "help": "diverse beam search in so many groups, which must divide --risk-candidates "
            "(1: plain beam search)"
        },
    )
    risk_diverse_strength: float = field(
        default=0.5,
        metadata={"help": "what a token costs that an earlier group took, in nats"},
    )
    risk_generation_dtype: ChoiceEnum(["model", "bf16", "fp16"]) = field(  # type: ignore[valid-type]
        default="model",
        metadata={
            "help": "make the candidates with a copy of the model in half precision: faster where "
            "the hardware has it, and the lists may differ from the model's own; scoring, risk "
            "and gradient stay as they are"
        },
    )
    risk_sampling_topk: int = field(
        default=-1, metadata={"help": "sample from the k likeliest tokens only (-1: all)"}
    )
    risk_sampling_topp: float = field(
        default=-1.0,
        metadata={"help": "sample from the smallest set with this probability mass (-1: all)"},
    )
    risk_temperature: float = field(
        default=1.0, metadata={"help": "temperature of the generator's softmax"}
    )
    risk_lenpen: float = field(
        default=1.0,
        metadata={"help": "beam search's length penalty exponent (not SIMILE's length penalty)"},
    )
    risk_max_len_a: float = field(
        default=1.5,
        metadata={"help": "candidates have at most a * source length + b tokens: a (paper: 1.5)"},
    )
    risk_max_len_b: int = field(
        default=10, metadata={"help": "b of the same bound, in tokens (paper: 5)"}
    )
    risk_include_reference: bool = field(
        default=False,
        metadata={"help": "put the reference into the risk set (paper: no)"},
    )
    risk_keep_duplicates: bool = field(
        default=False,
        metadata={"help": "keep candidates whose tokens repeat in a list (they count twice in Q)"},
    )
    risk_alpha: float = field(
        default=1.0,
        metadata={"help": "sharpness of Q = softmax(risk_alpha * score)"},
    )
    risk_score: ChoiceEnum(["sum", "mean"]) = field(  # type: ignore[valid-type]
        default="sum",
        metadata={
            "help": "model score of a candidate inside Q: its log-probability, summed over the "
            "tokens or divided by their number"
        },
    )
    risk_cost_scale: float = field(
        default=10.0,
        metadata={
            "help": "factor on the cost in [0, 1] inside the loss; logged costs stay in [0, 1]. "
            "It and gamma balance risk and token loss together: at 1 the risk hardly moves the "
            "model, at 100 the reward is gamed (recipes/multi30k/README.md has the figures)"
        },
    )
    risk_max_tokens: int = field(
        default=0,
        metadata={
            "help": "score at most this many target tokens (candidates x longest candidate) at "
            "once, with the gradient of as many sentences as fit in between: bounds memory, also "
            "where --batch-size is large for the sake of the generation (0: all at once, less "
            "after memory ran out)"
        },
    )
    risk_compat: ChoiceEnum(["none", BEYOND_BLEU]) = field(  # type: ignore[valid-type]
        default="none",
        metadata={
            "help": "beyond-bleu: the objective of the code released with the paper, for "
            "comparison: costs 0 to 100, Q = softmax(exp(mean log p)), token loss divided by the "
            "batch's tokens; overrides --risk-score, --risk-alpha and --risk-cost-scale"
        },
    )
    risk_post_process: ChoiceEnum(  # type: ignore[valid-type]
        ["auto", "sentencepiece", "subword_nmt", "none"]
    ) = field(
        default="auto",
        metadata={"help": "how target tokens join to words; auto reads it off the dictionary"},
    )
    risk_detok: ChoiceEnum(["none", "moses"]) = field(  # type: ignore[valid-type]
        default="none",
        metadata={"help": "moses: undo Moses tokenisation before scoring (needs sacremoses)"},
    )
    risk_bleu_tokenize: str = field(
        default="13a",
        metadata={"help": "sacreBLEU tokeniser of the BLEU reward and of validation BLEU"},
    )
    risk_max_skipped: int = field(
        default=10,
        metadata={
            "help": "an update with a NaN or infinite gradient is skipped (counted as skipped); "
            "more than this many in a row stop training (0: stop at the first, as fairseq does; "
            "with --fp16 and --amp the loss scale decides)"
        },
    )
    risk_length_band: float = field(
        default=1.5,
        metadata={
            "help": "stop when two validations in a row have a lower cost than the first one, but "
            "also a lower BLEU and a length ratio more than this factor above the larger, or below "
            "the smaller, of 1 and the first one's: the reward is being gamed (0: never)"
        },
    )
    risk_dump: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "append the n-best lists of validations before the first update to this file, "
            "with their costs, one JSON object a line (simile report --only costs reads it)"
        },
    )


@register_criterion("simile_risk", dataclass=SimileRiskConfig)
class SimileRiskCriterion(FairseqCriterion):
    """L = gamma L_TokLS + (1 - gamma) L_Risk over n-best lists (Wieting et al. 2019, eq. 1).

    Both terms are averages over sentences: L_TokLS of a sentence is its label-smoothed negative
    log-likelihood a token, L_Risk its expected cost. A sentence's loss so does not depend on its
    batch, and ``sample_size`` is the number of sentences.

    Nothing with parameters hangs in this module: fairseq's trainer would halve, optimise and save
    it, and would refuse to start from an MLE checkpoint.

    Raises:
        ValueError: for flags that cannot work, naming the flag.
    """

    def __init__(self, cfg: SimileRiskConfig, task: Any) -> None:
        super().__init__(task)
        check_config(cfg)
        check_task(task)
        self.cfg = cfg
        self.reward = Reward(cfg.reward)
        self.compat = str(cfg.risk_compat) == BEYOND_BLEU
        self.generator = CandidateGenerator(task.target_dictionary, candidate_options(cfg))
        self.target_text = target_text(cfg, task)
        self.source_text = TargetText(task.source_dictionary)
        self._encoder = _Holder(load_reward_encoder(cfg, self.reward))
        self.dump = RiskDump(cfg.risk_dump) if cfg.risk_dump else None
        self.clock = Stopwatch()
        self.portions = Portions(cfg.risk_max_tokens, self.clock.phase)
        self.max_skipped, self.length_band = cfg.risk_max_skipped, cfg.risk_length_band
        self._describe()

    def _describe(self) -> None:
        encoder = self._encoder.module
        scored = signature(encoder, self.cfg.simile_alpha) if encoder else "no encoder"
        logger.info(f"reward: {self.cfg.reward} ({scored})")
        logger.info(f"target text: post-process {self.target_text.post_process}")
        if encoder is None:
            logger.warning("no --simile-encoder: SIM, SIMILE and their costs are not reported")

    def objective(self) -> dict[str, str]:
        """What is optimised, by flag: the same on all ranks, and in a run that is resumed."""
        names = [f.name for f in fields(SimileRiskConfig) if f.name not in NOT_OPTIMISED]
        found = {f"--{n.replace('_', '-')}": str(getattr(self.cfg, n)) for n in names}
        encoder = self._encoder.module
        return found | {"--simile-encoder": encoder.fingerprint if encoder else "none"}

    def forward(
        self, model: nn.Module, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """Loss of a batch, summed over its sentences.

        Returns:
            loss, sample_size (number of sentences), logging_output (sums over sentences).
        """
        check_model(model)
        self.clock = Stopwatch()
        with self.clock.phase("generation"):
            risk_set = self.generator(model, sample)
        with self.clock.phase("text"):  # before the device has anything else to do
            rows = risk_set.tokens.tolist()
        judge = functools.cache(lambda: self.judge(sample, risk_set, rows))
        divisors = self.token_divisors(sample["target"])

        def portion_loss(model: nn.Module, portion: Portion) -> tuple[Tensor, Scored]:
            part = part_of(sample, portion.rows, self.padding_idx)
            part_set = risk_set.part(portion.rows)
            token_lprobs, mean_lprobs = score_rows(
                model, part, part_set, self.padding_idx, portion.max_tokens
            )
            # A GPU is at work on the scores; the reward is computed meanwhile.
            reward = judge()[2][portion.rows].to(token_lprobs)
            finite = risk.finite_rows(token_lprobs, mean_lprobs, reward, part_set.mask)
            part_set = replace(part_set, mask=finite.members)
            distribution = self.distribution(finite.token_lprobs, part_set)
            sentence_risk = risk.expected_cost(distribution, 1.0 - finite.reward)
            sentence_risk = sentence_risk + risk.cost_without_members(finite.members)
            token_loss, nll = self.token_loss(finite.token_lprobs[:, 0], finite.mean_lprobs)
            loss = gamma * token_loss / divisors[portion.rows] + (1 - gamma) * scale * sentence_risk
            values = (finite.token_lprobs, distribution, sentence_risk, nll, loss)
            checked = (finite.reward, finite.members, finite.references, finite.dropped.view(1))
            return loss.sum(), Scored(*(value.detach() for value in (*values, *checked)))

        gamma, scale = self.cfg.mle_weight, 100.0 if self.compat else self.cfg.risk_cost_scale
        self.portions.phase = self.clock.phase
        loss, found = self.portions(
            model, sample["net_input"], risk_set.sentence_tokens(self.padding_idx), portion_loss
        )
        scored = Scored(*(torch.cat(values) for values in zip(*found, strict=True)))
        kept = replace(risk_set, mask=scored.members)
        hyps, scores, _ = judge()
        if self.dump is not None:
            self.write_lists(self.dump, sample, kept, hyps, scored.token_lprobs, scores)
        lengths = sample["target"].ne(self.padding_idx).sum(-1)
        logging_output = {
            "loss": torch.where(scored.references, scored.loss, 0.0).sum(),
            "nonfinite": scored.dropped.sum(),
            "unscored": (~scored.references).sum(),
            "empty": (~scored.members.any(-1)).sum(),
            "nll_loss": scored.nll.sum(),
            "ntokens": (lengths * scored.references).sum(),
            "nsentences": sample["target"].size(0),
            "sample_size": sample["target"].size(0),
            "cost": scored.risk.sum(),
            "distinct": distinct_share(hyps),
            **self.list_statistics(kept, scored.distribution, scores, scored.reward),
            **{f"seconds_{name}": value for name, value in self.clock.seconds.items()},
        }
        return loss, sample["target"].size(0), logging_output

    def judge(
        self, sample: dict[str, Any], risk_set: RiskSet, rows: list[list[list[int]]]
    ) -> tuple[list[list[str]], ListScores, Tensor]:
        """Strings, scores and the trained reward of every row (B, 1 + N), reference first.

        Args:
            rows: the risk set's tokens as lists.
        """
        with self.clock.phase("text"):
            hyps = self.texts(rows, risk_set.tags)
        with self.clock.phase("reward"):
            refs = [row[0] for row in hyps]
            encoder = self._encoder.to(risk_set.tokens.device)
            alpha, tokenize = self.cfg.simile_alpha, self.cfg.risk_bleu_tokenize
            scores = score_lists(hyps, refs, encoder, alpha, tokenize)
            if self.reward.function is None:
                return hyps, scores, self.reward.from_scores(scores)
            srcs = self.source_text.strings(sample["net_input"]["src_tokens"].tolist())
            first = 0 if self.cfg.risk_include_reference else 1
            values = self.reward.from_function(
                [row[first:] for row in hyps], refs, srcs, risk_set.mask[:, first:]
            )
            return hyps, scores, nn.functional.pad(values, (first, 0))

    def texts(
        self, rows: list[list[list[int]]], tags: frozenset[int] = frozenset()
    ) -> list[list[str]]:
        """Plain strings of every row, reference first: B lists of 1 + N.

        Args:
            tags: tokens that are no text, see RiskSet.
        """
        refs = self.target_text.strings([row[0] for row in rows], reference=True, tags=tags)
        flat = iter(self.target_text.strings([hyp for row in rows for hyp in row[1:]], tags=tags))
        return [
            [ref, *itertools.islice(flat, len(row) - 1)]
            for ref, row in zip(refs, rows, strict=True)
        ]

    def distribution(self, token_lprobs: Tensor, risk_set: RiskSet) -> Tensor:
        """Q over each risk set: (B, 1 + N), 0 outside it."""
        token_mask = risk_set.tokens.ne(self.padding_idx)
        if self.compat:
            means = risk.candidate_scores(token_lprobs, token_mask, normalize=True)
            return risk.beyond_bleu_distribution(means, risk_set.mask)
        normalize = str(self.cfg.risk_score) == "mean"
        scores = risk.candidate_scores(token_lprobs, token_mask, normalize)
        return risk.candidate_distribution(scores, risk_set.mask, self.cfg.risk_alpha)

    def token_loss(self, lprobs: Tensor, mean_lprobs: Tensor) -> tuple[Tensor, Tensor]:
        """Label-smoothed loss and negative log-likelihood of each reference, summed over tokens.

        fairseq's smoothing: eps / (V - 1) on every wrong token, 1 - eps on the right one.

        Args:
            lprobs: (B, T) log-probability of the reference's tokens, 0 at padding.
            mean_lprobs: (B, T) mean log-probability over the vocabulary, 0 at padding.

        Returns:
            (B,) smoothed loss, (B,) negative log-likelihood; both in nats.
        """
        entries = len(self.target_text.symbols)
        each = self.cfg.label_smoothing / (entries - 1)
        nll, smooth = -lprobs.sum(-1), -entries * mean_lprobs.sum(-1)
        smoothed = (1 - self.cfg.label_smoothing - each) * nll + each * smooth
        return smoothed, nll

    def token_divisors(self, target: Tensor) -> Tensor:
        """What each reference's smoothed loss is divided by to be L_TokLS: its tokens, (B,)."""
        lengths = target.ne(self.padding_idx).sum(-1).clamp(min=1)
        if self.compat:  # the batch's mean over tokens, times its sentences
            return (lengths.sum() / target.size(0)).expand(target.size(0))
        return lengths

    def write_lists(
        self,
        dump: RiskDump,
        sample: dict[str, Any],
        risk_set: RiskSet,
        hyps: list[list[str]],
        token_lprobs: Tensor,
        scores: ListScores,
    ) -> None:
        """Write the lists to --risk-dump, until training begins."""
        if self.training:
            dump.close()
            return
        sources = self.source_text.strings(sample["net_input"]["src_tokens"].tolist())
        token_mask = risk_set.tokens.ne(self.padding_idx)
        model_scores = risk.candidate_scores(token_lprobs, token_mask, normalize=False)
        dump.write(sample["id"], sources, hyps, risk_set.mask, model_scores, scores)

    def list_statistics(
        self, risk_set: RiskSet, distribution: Tensor, scores: ListScores, reward: Tensor
    ) -> dict[str, Any]:
        """Sums over sentences of what validation reports; the same keys on every rank."""
        mask, device = risk_set.mask, risk_set.tokens.device
        reward = reward.to(device)
        deviation = risk.masked_std(reward, mask)
        worst = risk.cost_without_members(mask).sum()
        statistics = {
            "entropy_q": risk.entropy(distribution).sum(),
            "reward_std": deviation.sum(),
            "zero_std": (deviation <= 1e-6).sum(),
            "candidates": mask.sum(),
            "cost_bleu": risk.expected_cost(distribution, 1 - scores.bleu.to(device)).sum() + worst,
            "bleu_stats": scores.bleu_stats[:, 1].sum(0).to(device),
        }
        if scores.simile is not None and scores.sim is not None:
            simile, sim = scores.simile.to(device), scores.sim.to(device)
            statistics["cost_simile"] = risk.expected_cost(distribution, 1 - simile).sum() + worst
            statistics["sim"] = sim[:, 1].sum()
            statistics["simile"] = simile[:, 1].sum()
        return statistics

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        """Turn summed logging outputs into fairseq's metrics; costs and rewards stay in [0, 1]."""
        total = {
            key: sum(log[key] for log in logging_outputs if key in log)
            for key in {key for log in logging_outputs for key in log}
        }
        sentences, tokens = total.get("nsentences", 0), total.get("ntokens", 0)
        if not sentences:
            return
        # What has no finite reference has no weight; where none has, the loss is infinite.
        scored = sentences - total.get("unscored", 0)
        loss = total["loss"] / scored if scored else math.inf
        metrics.log_scalar("loss", loss, scored, round=4)
        bits = total["nll_loss"] / tokens / math.log(2) if tokens else math.inf
        metrics.log_scalar("nll_loss", bits, tokens, round=3)
        metrics.log_derived("ppl", lambda meters: get_perplexity(meters["nll_loss"].avg))
        for key in SENTENCE_MEANS:
            if key in total:
                scale = 100 if key in ("sim", "simile") else 1
                value = scale * total[key] / sentences
                metrics.log_scalar(key, value, sentences, round=2 if scale == 100 else 4)
        # Meters sum what they are given; BLEU and the length ratio come from the summed counts.
        metrics.log_scalar("_bleu_stats", total["bleu_stats"].double().cpu())
        metrics.log_derived("bleu", lambda meters: bleu_of_meter(meters["_bleu_stats"]))
        metrics.log_derived("length_ratio", lambda meters: ratio_of_meter(meters["_bleu_stats"]))
        for phase in PHASES:  # the time of a device, also where several share the batch
            seconds = total.get(f"seconds_{phase}", 0.0)
            metrics.log_scalar(f"ms_{phase}", 1000 * seconds / sentences, sentences, round=2)
        metrics.log_speed("sents_s", sentences, round=1)
        metrics.log_speed("hyps_s", float(total["candidates"]), round=0)
        metrics.log_derived("peak_gb", lambda _: round(peak_gigabytes(), 2))

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Every rank logs the same keys with the same shapes."""
        return True


SENTENCE_MEANS = (
    "cost",
    "cost_simile",
    "cost_bleu",
    "sim",
    "simile",
    "candidates",
    "distinct",
    "entropy_q",
    "reward_std",
    "zero_std",
    "nonfinite",
    "empty",
)


PHASES = ("generation", "text", "reward", "scoring", "backward")


class Scored(NamedTuple):
    """What the model says of some sentences; B of them.

    Attributes:
        token_lprobs: (B, 1 + N, T) log-probabilities of the rows' tokens.
        distribution: (B, 1 + N) Q.
        risk: (B,) expected costs.
        nll: (B,) negative log-likelihood of the references, in nats.
        loss: (B,) of each sentence.
        reward, members, references: see risk.FiniteRows.
        dropped: (1,) rows left out; (P,) of P portions.
    """

    token_lprobs: Tensor
    distribution: Tensor
    risk: Tensor
    nll: Tensor
    loss: Tensor
    reward: Tensor
    members: Tensor
    references: Tensor
    dropped: Tensor


class Stopwatch:
    """Seconds of the phases of one update, by the host's clock; a phase within another counts
    for itself alone.

    A GPU works on while the host is ahead of it: what is still running is counted in the phase
    that first waits for a result.
    """

    now: Callable[[], float] = staticmethod(time.perf_counter)

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time of the block to a phase."""
        start, others = self.now(), sum(self.seconds.values())
        try:
            yield
        finally:
            within = sum(self.seconds.values()) - others
            self.seconds[name] += self.now() - start - within


def peak_gigabytes() -> float:
    """Largest memory so far, in 10^9 bytes: of the GPU's tensors, or of this process."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9  # KiB on Linux


class _Holder:
    """Keeps a module out of the criterion's own module tree."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def to(self, device: torch.device) -> Any:
        return self.module.to(device) if self.module is not None else None


def bleu_of_meter(meter: Any) -> float:
    """Corpus BLEU of the top candidates, 0 to 100."""
    return round(float(corpus_bleu(torch.as_tensor(meter.sum))), 2)


def ratio_of_meter(meter: Any) -> float:
    """Words of the top candidates over words of the references."""
    stats = torch.as_tensor(meter.sum)
    return round(float(stats[0] / stats[1].clamp(min=1)), 4)


def distinct_share(hyps: list[list[str]]) -> float:
    """Sum over sentences of the share of distinct strings among the generated candidates."""
    return float(sum(len(set(row[1:])) / max(1, len(row) - 1) for row in hyps))


def candidate_options(cfg: SimileRiskConfig) -> CandidateOptions:
    """The generator's part of the flags."""
    return CandidateOptions(
        size=cfg.risk_candidates,
        search=str(cfg.risk_search),
        diverse_groups=cfg.risk_diverse_groups,
        diverse_strength=cfg.risk_diverse_strength,
        sampling_topk=cfg.risk_sampling_topk,
        sampling_topp=cfg.risk_sampling_topp,
        temperature=cfg.risk_temperature,
        lenpen=cfg.risk_lenpen,
        max_len_a=cfg.risk_max_len_a,
        max_len_b=cfg.risk_max_len_b,
        dtype=GENERATION_DTYPES[str(cfg.risk_generation_dtype)],
        include_reference=cfg.risk_include_reference,
        dedupe=not cfg.risk_keep_duplicates,
    )


def target_text(cfg: SimileRiskConfig, task: Any) -> TargetText:
    """How target ids become the strings that are scored."""
    language = getattr(task.cfg, "target_lang", None) or "en"
    detokenize = moses_detokenizer(language) if str(cfg.risk_detok) == "moses" else None
    return TargetText(task.target_dictionary, str(cfg.risk_post_process), detokenize)


def load_reward_encoder(cfg: SimileRiskConfig, reward: Reward) -> Any:
    """The encoder of ``--simile-encoder``, or None where the reward can do without."""
    if cfg.simile_encoder:
        return load_encoder(cfg.simile_encoder)
    if reward.needs_encoder:
        raise InputError(
            f"--simile-encoder: not given, but --reward {cfg.reward} needs the folder of a reward "
            "encoder; make one by simile train-encoder"
        )
    return None


def check_config(cfg: SimileRiskConfig) -> None:
    """Refuse flag values that cannot work.

    Raises:
        ValueError: naming the flag, its value and the range.
    """
    for flag, value, valid, expected in (
        ("--mle-weight", cfg.mle_weight, 0 <= cfg.mle_weight <= 1, "a number from 0 to 1"),
        (
            "--label-smoothing",
            cfg.label_smoothing,
            0 <= cfg.label_smoothing < 1,
            "a number from 0 to below 1",
        ),
        ("--risk-candidates", cfg.risk_candidates, cfg.risk_candidates >= 1, "at least 1"),
        ("--risk-max-tokens", cfg.risk_max_tokens, cfg.risk_max_tokens >= 0, "0 or more"),
        ("--risk-max-skipped", cfg.risk_max_skipped, cfg.risk_max_skipped >= 0, "0 or more"),
        (
            "--risk-length-band",
            cfg.risk_length_band,
            cfg.risk_length_band == 0 or cfg.risk_length_band > 1,
            "0 or a number above 1",
        ),
        ("--risk-alpha", cfg.risk_alpha, cfg.risk_alpha > 0, "a number above 0"),
        ("--risk-cost-scale", cfg.risk_cost_scale, cfg.risk_cost_scale > 0, "a number above 0"),
        ("--risk-temperature", cfg.risk_temperature, cfg.risk_temperature > 0, "above 0"),
        ("--simile-alpha", cfg.simile_alpha, cfg.simile_alpha >= 0, "a number from 0"),
    ):
        if not valid:
            raise InputError(f"{flag}: got {value}, expected {expected}")
    groups, sampling = cfg.risk_diverse_groups, str(cfg.risk_search) == "sampling"
    if groups < 1 or cfg.risk_candidates % groups or (groups > 1 and sampling):
        raise InputError(
            f"--risk-diverse-groups: got {groups}, expected a divisor of --risk-candidates "
            f"{cfg.risk_candidates}, with --risk-search beam"
        )
    limits = (cfg.risk_sampling_topk, cfg.risk_sampling_topp)
    if limits != (-1, -1.0) and not sampling:
        raise InputError(
            "--risk-sampling-topk, --risk-sampling-topp: given with --risk-search beam; expected "
            "--risk-search sampling"
        )
    if limits[0] > 0 and limits[1] > 0:
        raise InputError(
            f"--risk-sampling-topk: got {limits[0]} together with --risk-sampling-topp "
            f"{limits[1]}; expected one of them"
        )
    if limits[1] > 1:
        raise InputError(f"--risk-sampling-topp: got {limits[1]}, expected a mass from 0 to 1")
    check_tokenizer(cfg.risk_bleu_tokenize, "--risk-bleu-tokenize")


def check_task(task: Any) -> None:
    """Refuse tasks without a source and a target side, and left-padded targets.

    Raises:
        ValueError: naming the task or the flag.
    """
    if getattr(task, "source_dictionary", None) is None or task.target_dictionary is None:
        raise InputError(
            f"--task {type(task).__name__}: has no source and target dictionary; expected a "
            "translation task over a folder made by fairseq-preprocess"
        )
    if getattr(task.cfg, "left_pad_target", False):
        raise InputError("--left-pad-target: got True, expected False (fairseq's default)")


def check_model(model: nn.Module) -> None:
    """Refuse decoder-only and other models.

    Raises:
        ValueError: naming the model's class.
    """
    plain = unwrap(model)
    if not isinstance(plain, FairseqEncoderDecoderModel):
        raise InputError(
            f"--arch: got a {type(plain).__name__}; simile_risk needs an encoder-decoder model "
            "(transformer, fconv, lstm, ...) because it conditions on a source sentence"
        )
    if isinstance(plain, FairseqNATModel):
        raise InputError(
            f"--arch: got a {type(plain).__name__}; simile_risk needs a decoder that goes from "
            "left to right (transformer, fconv, lstm, ...): this one gives no probabilities"
        )
    if getattr(plain.decoder, "adaptive_softmax", None) is not None:
        raise InputError(
            "--adaptive-softmax-cutoff: got a model with an adaptive softmax, expected a full one; "
            "fairseq's adaptive log-probabilities have no gradient"
        )
