"""The learned reward: a weighted sum of features, fitted to human judgements (`simile fit-reward`).

reward = exp(-sum_k w_k f_k / scale), w_k >= 0: 1 for the reference itself, 0 for an empty side.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simile_plugin.encoder import RewardEncoder
from simile_plugin.files import InputError, atomic_folder, read_lines
from simile_plugin.reward.features import FEATURES, SOURCE, Floats, Lexicon, WordTable

FORMAT_VERSION = 1
REWARD = "reward.json"
VOCABULARY = "vocabulary.txt"
DEFAULT_LEARNED = "default"  # names the package's, as `default` names its encoder
OURS = Path(__file__).parent / "english"
SCALE = 4.0  # the spread within n-best lists is then near SIMILE's


@dataclass
class LearnedReward:
    """Weights of features, and what is needed to count them.

    Attributes:
        weights: by feature, in the order of FEATURES; SOURCE only where it has one.
        encoder: fingerprint of the encoder of the fit.
        facts: what it was fitted on and what it is worth, kept beside it.
    """

    weights: dict[str, float]
    lexicon: Lexicon
    encoder: str
    scale: float = SCALE
    facts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._table: WordTable | None = None

    @property
    def fingerprint(self) -> str:
        """12 hex digits over all that decides the reward."""
        digest = hashlib.sha256(json.dumps(self._identity(), sort_keys=True).encode())
        digest.update("\n".join(sorted(self.lexicon.known)).encode())
        return digest.hexdigest()[:12]

    def _identity(self) -> dict[str, Any]:
        return {
            "encoder": self.encoder,
            "scale": self.scale,
            "weights": self.weights,
            "common_words": sorted(self.lexicon.common),
            "negation_words": sorted(self.lexicon.negations),
        }

    @property
    def needs_sources(self) -> bool:
        """Return whether nearness to the source has a weight."""
        return SOURCE in self.weights

    @property
    def signature(self) -> str:
        """Return the signature of a number of this reward, in sacreBLEU's manner."""
        from simile_plugin import __version__

        return (
            f"learned:{self.fingerprint}|enc:{self.encoder}|faults:{len(self.weights)}|"
            f"scale:{self.scale:g}|version:{__version__}"
        )

    def use(self, encoder: RewardEncoder) -> WordTable:
        """Return the table of words by this encoder, whose fingerprint is compared once.

        Raises:
            InputError: if it is not the encoder of the fit.
        """
        if self._table is None or self._table.encoder is not encoder:
            if encoder.fingerprint != self.encoder:
                name = " (default)" if self.fingerprint == packaged_fingerprints()[0] else ""
                raise InputError(
                    f"--encoder (in training --simile-encoder): got encoder {encoder.fingerprint}, "
                    f"but the learned reward {self.fingerprint} was fitted with encoder "
                    f"{self.encoder}{name}; give that one, or fit again (simile fit-reward)"
                )
            self._table = WordTable(encoder, self.lexicon)
        return self._table

    def scores(
        self,
        hyps: Sequence[Sequence[str]],
        refs: Sequence[str],
        encoder: RewardEncoder,
        sim: Tensor,
        srcs: Sequence[str] | None = None,
    ) -> Tensor:
        """Return the rewards of B lists of N hypotheses: (B, N) float32 in [0, 1].

        Args:
            sim: (B, N) cosines of the encoder, as of `add_similarity`.
            srcs: B sources, where the source has a weight.

        Raises:
            InputError: if they are missing.
        """
        if self.needs_sources and srcs is None:
            raise InputError(
                f"learned reward {self.fingerprint}: reads sources, too; give them "
                "(--src FILE, or a column of judgements named source)"
            )
        of = srcs if self.needs_sources else None
        features, empty = self.use(encoder).count(hyps, refs, sim, of)
        weights = np.array(list(self.weights.values()))
        return torch.from_numpy(self.of_features(features, empty, weights, self.scale)).float()

    @staticmethod
    def of_features(
        features: Floats, empty: NDArray[np.bool_], weights: Floats, scale: float = SCALE
    ) -> Floats:
        """Return exp(-sum_k w_k f_k / scale) of features (..., K): (...) in [0, 1].

        0 where `empty`.
        """
        return np.where(empty, 0.0, np.exp(-(features @ weights) / scale))


def save_learned(folder: str | Path, reward: LearnedReward) -> None:
    """Write the folder of a reward: REWARD and VOCABULARY; replaces an older one as a whole."""
    words = "".join(f"{word}\n" for word in sorted(reward.lexicon.known)).encode()
    content = {
        "format_version": FORMAT_VERSION,
        "fingerprint": reward.fingerprint,
        **reward._identity(),
        "vocabulary": {"words": len(reward.lexicon.known), "sha256": _sha256(words)},
        "facts": reward.facts,
    }
    with atomic_folder(folder, REWARD) as target:
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        # a file's name may have bytes that are no UTF-8: JSON's own escapes
        (target / REWARD).write_bytes(f"{text}\n".encode(errors="backslashreplace"))
        (target / VOCABULARY).write_bytes(words)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def packaged_fingerprints() -> tuple[str, str]:
    """Return the fingerprints of the package's learned reward and of the encoder of its fit."""
    content = json.loads((OURS / REWARD).read_bytes())
    return content["fingerprint"], content["encoder"]


def learned_beside(encoder: RewardEncoder | None) -> LearnedReward | None:
    """Return the package's learned reward where this is the encoder of its fit, else None."""
    if encoder is None or encoder.fingerprint != packaged_fingerprints()[1]:
        return None
    return load_learned(OURS)


def load_learned(folder: str | Path, flag: str = "--reward") -> LearnedReward:
    """Read the folder of a reward; `default` is the package's English one.

    Raises:
        InputError: naming flag and file, if a part is missing, damaged, of a newer format, or does
            not belong to the other.
    """
    if str(folder) == DEFAULT_LEARNED and not Path(folder).exists():
        folder = OURS
    path = Path(folder) / REWARD
    if not path.is_file():
        raise InputError(
            f"{flag}: {folder}: no {REWARD}; expected the folder of a learned reward "
            f"(made by simile fit-reward), or, for English, `{DEFAULT_LEARNED}`"
        )
    words_path = path.with_name(VOCABULARY)
    words = read_lines(words_path, flag)
    try:
        content = json.loads("\n".join(read_lines(path, flag)))
        version = content["format_version"]
        if version > FORMAT_VERSION:
            raise InputError(
                f"{flag}: {path}: format_version {version} is newer than {FORMAT_VERSION}, the "
                "newest this version reads; update simile-plugin"
            )
        names = [*FEATURES, *([SOURCE] if SOURCE in content["weights"] else [])]
        lexicon = Lexicon(
            *map(frozenset, (words, content["common_words"], content["negation_words"]))
        )
        reward = LearnedReward(
            {name: float(content["weights"][name]) for name in names},
            lexicon,
            content["encoder"],
            float(content["scale"]),
            content["facts"],
        )
        sound = reward.fingerprint == content["fingerprint"]
    except InputError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        what = f"no key {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{flag}: {path}: is no learned reward ({what}); copy it again") from error
    # The fingerprint is of all that decides, the vocabulary, too.
    if not sound:
        raise InputError(
            f"{flag}: {path} or {VOCABULARY} beside it was changed after the fit: the fingerprint "
            f"is not {content['fingerprint']!r}; copy both again, or fit again"
        )
    return reward
