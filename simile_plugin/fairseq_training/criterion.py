"""The fairseq criterion ``simile_risk``: minimum risk training with a semantic reward."""

# No "from __future__ import annotations": fairseq reads the types of __init__ at run time.
import functools
import logging
from dataclasses import dataclass, fields
from typing import Any

import torch
from fairseq.criterions import FairseqCriterion, register_criterion
from torch import Tensor, nn

from simile_plugin import risk
from simile_plugin.encoder import split_words
from simile_plugin.fairseq_training.candidates import CandidateGenerator, part_of
from simile_plugin.fairseq_training.config import (
    BEYOND_BLEU,
    SimileRiskConfig,
    check_task,
    read_config,
    settings_of,
)
from simile_plugin.fairseq_training.decoders import check_model
from simile_plugin.fairseq_training.dump import RiskDump
from simile_plugin.fairseq_training.metrics import note_memory, reduce_metrics
from simile_plugin.fairseq_training.scoring import score_rows
from simile_plugin.fairseq_training.target_text import (
    TargetText,
    marked_as,
    moses_detokenizer,
    moses_mark,
)
from simile_plugin.files import flag_name
from simile_plugin.reward import (
    FirstLook,
    ListScores,
    Reward,
    load_reward_encoder,
    signature,
)
from simile_plugin.risk import (
    Portion,
    Portions,
    RiskSet,
    Scored,
    Stopwatch,
    on_host,
    sums_over_sentences,
)

logger = logging.getLogger(__name__)

# Fields of the configuration that change nothing in what is optimised.
NOT_OPTIMISED = {"_name", "risk_dump", "risk_max_tokens"}


@dataclass(frozen=True)
class Judgement:
    """What the lists of a batch are worth, the reference first in each.

    Attributes:
        hyps: B lists of 1 + N strings.
        scores: their SIMILE and BLEU, (B, 1 + N).
        reward: (B, 1 + N), what is trained on.
        lengths: (B, 1 + N), see risk.relative_length.
    """

    hyps: list[list[str]]
    scores: ListScores
    reward: Tensor
    lengths: Tensor


@register_criterion("simile_risk", dataclass=SimileRiskConfig)
class SimileRiskCriterion(FairseqCriterion):
    """L = gamma L_TokLS + (1 - gamma) L_Risk over n-best lists (Wieting et al. 2019, eq. 1).

    Both terms are averages over sentences: L_TokLS of a sentence is its label-smoothed negative
    log-likelihood a token, L_Risk its expected cost. A sentence's loss so does not depend on its
    batch, and ``sample_size`` is the number of sentences.

    Nothing with parameters hangs in this module: fairseq's trainer would halve, optimise and save
    it, and would refuse to start from an MLE checkpoint.

    Raises:
        InputError: for flags that cannot work, naming the flag.
    """

    def __init__(self, cfg: SimileRiskConfig, task: Any) -> None:
        super().__init__(task)
        self.cfg = cfg = read_config(cfg)
        check_task(task)
        self.eval_bleu = bool(getattr(settings_of(task), "eval_bleu", False))
        self.reward = Reward(cfg.reward)
        self.compat = cfg.risk_compat == BEYOND_BLEU
        self.objective_of_lists = risk.Objective(
            cfg.mle_weight,
            cfg.label_smoothing,
            100.0 if self.compat else cfg.risk_cost_scale,
            cfg.risk_alpha,
            normalize=self.compat or cfg.risk_score == "mean",
            beyond_bleu=self.compat,
        )
        self.generator = CandidateGenerator(task.target_dictionary, cfg)
        self.target_text = text_of(cfg, task, "target", cfg.risk_post_process)
        self.source_text = text_of(cfg, task, "source")
        self._encoder = _Holder(load_reward_encoder(cfg.simile_encoder, self.reward))
        self.dump = RiskDump(cfg.risk_dump) if cfg.risk_dump else None
        self.clock = Stopwatch()
        self.portions = Portions(cfg.risk_max_tokens)
        self.length_control = risk.LengthControl(0.0 if self.compat else cfg.risk_length_control)
        self.max_skipped, self.length_band = cfg.risk_max_skipped, cfg.risk_length_band
        self.look_at_text = FirstLook(cfg.risk_bleu_tokenize, logger.warning)
        self._describe()

    def _describe(self) -> None:
        encoder = self._encoder.module
        scored = signature(encoder, self.cfg.simile_alpha) if encoder else "no encoder"
        logger.info(f"reward: {self.cfg.reward} ({scored})")
        logger.info(f"target text: post-process {self.target_text.post_process}")
        marks = marked_as(self.target_text.symbols, self.target_text.counts)
        if self.target_text.post_process != marks:
            logger.warning(
                f"--risk-post-process {self.target_text.post_process}: the target dictionary looks "
                f"like {marks}; rewards are computed of the text that comes out: check it in the "
                "lists of --risk-dump"
            )
        mark = moses_mark(self.target_text.symbols)
        if mark and self.cfg.risk_detok == "none":
            logger.warning(
                f"the target dictionary has Moses' {mark}, which is scored as it stands; give "
                "--risk-detok moses if the text was tokenised by Moses"
            )
        if encoder is None:
            logger.warning("no --simile-encoder: SIM, SIMILE and their costs are not reported")

    def objective(self) -> dict[str, str]:
        """What is optimised, by flag: the same on all ranks, and in a run that is resumed."""
        names = [f.name for f in fields(SimileRiskConfig) if f.name not in NOT_OPTIMISED]
        found = {flag_name(name): str(getattr(self.cfg, name)) for name in names}
        encoder = self._encoder.module
        found["--reward"] = self.reward.identity
        return found | {"--simile-encoder": encoder.fingerprint if encoder else "none"}

    def forward(
        self, model: nn.Module, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """Loss of a batch, summed over its sentences.

        Returns:
            loss, sample_size (number of sentences), logging_output (sums over sentences).
        """
        check_model(model, self.eval_bleu)
        self.clock = Stopwatch()
        with self.clock.phase("generation"):
            risk_set = self.generator(model, sample)
            # While the device has nothing to do: later, a copy would wait for all that it does.
            sources = sample["net_input"]["src_tokens"].cpu()
        judge_once = functools.cache(lambda: self.judge(sources, risk_set))
        tokens = sample["target"].ne(self.padding_idx).sum(-1)
        divisors = self.token_divisors(tokens)

        def portion_loss(model: nn.Module, portion: Portion) -> tuple[Tensor, Scored]:
            part = part_of(sample, portion.rows, self.padding_idx, sources)
            part_set = risk_set.part(portion.rows)
            scores = score_rows(model, part, part_set, self.padding_idx, portion.max_tokens)
            # A GPU is at work on the first portion's scores; the batch is judged meanwhile.
            judged = judge_once()
            reward, lengths = judged.reward[portion.rows], judged.lengths[portion.rows]
            return self.loss(part_set, *scores, reward, lengths, divisors[portion.rows])

        loss, found = self.portions(
            model,
            sample["net_input"],
            risk_set.sentence_tokens(self.padding_idx),
            portion_loss,
            self.clock.phase,
        )
        scored, judgement = Scored.cat(found), judge_once()
        if self.dump is not None:
            self.write_lists(self.dump, sample, risk_set, judgement, scored)
        hyps, scores = judgement.hyps, judgement.scores
        best = [split_words(row[1]) for row in hyps]
        sums = sums_over_sentences(scored, hyps, best, scores, tokens)
        times = {f"seconds_{name}": value for name, value in self.clock.seconds.items()}
        held = {"length_multiplier": len(tokens) * self.length_control.multiplier}
        return loss, len(tokens), sums | times | held

    def judge(self, sources: Tensor, risk_set: RiskSet) -> Judgement:
        """Text, scores and reward of every row, on the device without waiting for it.

        Args:
            sources: (B, S) tokens, on the CPU.
        """
        tokens, mask = risk_set.on_host
        with self.clock.phase("text"):
            hyps = self.target_text.lists(tokens.tolist(), risk_set.tags)
        device = risk_set.tokens.device
        # --amp is for the model: half precision makes ties of rewards that are near each other.
        with self.clock.phase("reward"), torch.autocast(device.type, enabled=False):
            reward, scores = self.reward.of_lists(
                *(hyps, torch.from_numpy(mask), self._encoder.to(device)),
                *(self.cfg.simile_alpha, self.cfg.risk_bleu_tokenize),
                *(lambda: self.source_text.strings(sources.tolist()), device),
            )
            self.look_at_text(hyps, scores)
            words = scores.bleu_stats
            lengths = risk.relative_length(words[..., 0], words[:, 0, 1])
            return Judgement(hyps, scores, reward, lengths)

    def loss(
        self,
        risk_set: RiskSet,
        token_lprobs: Tensor,
        mean_lprobs: Tensor,
        reward: Tensor,
        lengths: Tensor,
        divisors: Tensor,
    ) -> tuple[Tensor, Scored]:
        """L of some sentences, summed, and all that went into it; see risk.Objective.loss.

        Args:
            lengths: see Judgement.
        """
        # Validation's loss is that of the reward alone, whatever length costs by then.
        length_cost = lengths * (self.length_control.multiplier if self.training else 0.0)
        return self.objective_of_lists.loss(
            token_lprobs=token_lprobs,
            mean_lprobs=mean_lprobs,
            token_mask=risk_set.tokens.ne(self.padding_idx),
            members=risk_set.mask,
            reward=reward,
            length_cost=length_cost,
            divisors=divisors,
            vocabulary=len(self.target_text.symbols),
        )

    def token_divisors(self, lengths: Tensor) -> Tensor:
        """What each reference's smoothed loss is divided by to be L_TokLS: its tokens, (B,)."""
        lengths = lengths.clamp(min=1)
        if self.compat:  # the batch's mean over tokens, times its sentences
            return (lengths.sum() / len(lengths)).expand(len(lengths))
        return lengths

    def write_lists(
        self,
        dump: RiskDump,
        sample: dict[str, Any],
        risk_set: RiskSet,
        judgement: Judgement,
        scored: Scored,
    ) -> None:
        """Write the lists to --risk-dump, until training begins."""
        if self.training:
            dump.close()
            return
        sources = self.source_text.strings(sample["net_input"]["src_tokens"].tolist())
        token_mask = risk_set.tokens.ne(self.padding_idx)
        sums = risk.candidate_scores(scored.token_lprobs, token_mask, normalize=False)
        dump.write(sample["id"], sources, judgement.hyps, scored.members, sums, judgement.scores)

    def before_update(self) -> None:
        """Note the memory that an update's forward and backward passes took."""
        note_memory()

    def after_update(self, logging_outputs: list[dict[str, Any]]) -> None:
        """Adapt what length costs to an update's sums; the same on every rank."""
        sums = on_host(
            {name: sum(log[name] for log in logging_outputs) for name in risk.LENGTH_SUMS}
        )
        self.length_control.update(sums)

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        """Turn summed logging outputs into fairseq's metrics."""
        reduce_metrics(logging_outputs)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Every rank logs the same keys with the same shapes."""
        return True


class _Holder:
    """Keeps a module out of the criterion's own module tree."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def to(self, device: torch.device) -> Any:
        return self.module.to(device) if self.module is not None else None


def text_of(cfg: SimileRiskConfig, task: Any, side: str, post_process: str = "auto") -> TargetText:
    """How ids become strings, of the side "target" (what is scored) or "source".

    Args:
        post_process: of the target; a source's follows from its dictionary.
    """
    moses = cfg.risk_detok == "moses"
    detokenize = moses_detokenizer(language_of(task, side)) if moses else None
    dictionary = getattr(task, f"{side}_dictionary")
    if side == "target":
        return TargetText(dictionary, post_process, detokenize)
    # A source may be units of speech, or other numbers.
    text = TargetText(dictionary, marked_as(dictionary.symbols, dictionary.count), detokenize)
    text.silent |= language_tags(task)  # a target's are its batch's first and last
    return text


def language_of(task: Any, side: str) -> str:
    """The language of a side; a multilingual training names it in its first --lang-pairs alone."""
    if named := getattr(settings_of(task), f"{side}_lang", None):
        return str(named)
    pairs = getattr(task, "lang_pairs", ())
    return pairs[0].split("-")[side == "target"] if pairs else "en"


def language_tags(task: Any) -> set[int]:
    """Ids of the tags by which a multilingual task names a source's language, or its target's."""
    dictionary, languages = task.source_dictionary, getattr(task, "langs", ())
    tags = [form.format(language) for language in languages for form in ("__{}__", "[{}]")]
    return {dictionary.index(tag) for tag in tags if tag in dictionary}
