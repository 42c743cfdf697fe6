"""The learned reward: a weighted sum of features, fitted to human judgements (`simile fit-reward`).

reward = exp(-sum_k w_k f_k / scale), w_k >= 0: 1 for the reference itself, 0 for an empty side.
"""

from __future__ import annotations

import hashlib
import json
import sys
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
from simile_plugin.reward.features import FEATURES, Floats, Lexicon, WordTable, count_features

FORMAT_VERSION = 1
REWARD = "reward.json"
VOCABULARY = "vocabulary.txt"
SCALE = 4.0  # the spread within n-best lists is then near SIMILE's


@dataclass
class LearnedReward:
    """Weights of features, and what is needed to count them.

    Attributes:
        weights: by feature, in the order of FEATURES.
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
    def signature(self) -> str:
        """What stands behind a number of this reward, in sacreBLEU's manner."""
        from simile_plugin import __version__

        return (
            f"learned:{self.fingerprint}|enc:{self.encoder}|faults:{len(self.weights)}|"
            f"scale:{self.scale:g}|version:{__version__}"
        )

    def use(self, encoder: RewardEncoder) -> WordTable:
        """The table of words by this encoder, whose fingerprint is compared once.

        Raises:
            InputError: if it is not the encoder of the fit.
        """
        if self._table is None or self._table.encoder is not encoder:
            if encoder.fingerprint != self.encoder:
                raise InputError(
                    f"--encoder (in training --simile-encoder): got encoder {encoder.fingerprint}, "
                    f"but the learned reward {self.fingerprint} was fitted with encoder "
                    f"{self.encoder}; give that one, or fit again (simile fit-reward)"
                )
            self._table = WordTable(encoder, self.lexicon)
        return self._table

    def scores(
        self,
        hyps: Sequence[Sequence[str]],
        refs: Sequence[str],
        encoder: RewardEncoder,
        sim: Tensor,
    ) -> Tensor:
        """Rewards of B lists of N hypotheses: (B, N) float32 in [0, 1].

        Args:
            sim: (B, N) cosines of the encoder, as of `add_similarity`.
        """
        features, empty = count_features(self.use(encoder), hyps, refs, sim)
        weights = np.array(list(self.weights.values()))
        return torch.from_numpy(reward_of_features(features, empty, weights, self.scale)).float()


def reward_of_features(
    features: Floats, empty: NDArray[np.bool_], weights: Floats, scale: float = SCALE
) -> Floats:
    """exp(-sum_k w_k f_k / scale) of features (..., 12): (...) in [0, 1]; 0 where `empty`."""
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


def load_learned(folder: str | Path, flag: str = "--reward") -> LearnedReward:
    """Read the folder of a reward.

    Raises:
        InputError: naming flag and file, if a part is missing, damaged, of a newer format, or does
            not belong to the other.
    """
    path = Path(folder) / REWARD
    if not path.is_file():
        raise InputError(
            f"{flag}: {folder}: no {REWARD}; expected the folder of a learned reward "
            "(made by simile fit-reward)"
        )
    where = f"{flag}: {path}"
    try:
        found = json.loads("\n".join(read_lines(path, flag)))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where}: not valid JSON ({error}); copy it again") from error
    _check(found, where)
    words = read_lines(path.with_name(VOCABULARY), flag)
    content = "".join(f"{word}\n" for word in words).encode()
    if _sha256(content) != found["vocabulary"].get("sha256"):
        raise InputError(
            f"{flag}: {path.with_name(VOCABULARY)}: not the vocabulary of {REWARD} (it has "
            f"{len(words)} words, expected {found['vocabulary'].get('words')}); copy both again"
        )
    lexicon = Lexicon(
        frozenset(words), frozenset(found["common_words"]), frozenset(found["negation_words"])
    )
    weights = {name: float(found["weights"][name]) for name in FEATURES}
    scale = float(found["scale"])
    reward = LearnedReward(weights, lexicon, found["encoder"], scale, found["facts"])
    if reward.fingerprint != found["fingerprint"]:
        raise InputError(
            f"{where}: fingerprint: got {found['fingerprint']!r}, its content has "
            f"{reward.fingerprint!r}; the file was changed after the fit: copy or fit it again"
        )
    return reward


def _check(found: Any, where: str) -> None:
    """Raise InputError unless everything is there and of the right type."""
    if not isinstance(found, dict) or type(found.get("format_version")) is not int:
        raise InputError(f"{where}: no format_version; this is no learned reward's {REWARD}")
    if found["format_version"] > FORMAT_VERSION:
        raise InputError(
            f"{where}: format_version {found['format_version']} is newer than {FORMAT_VERSION}, "
            "the newest this version reads; update simile-plugin"
        )
    if found["format_version"] < 1:
        raise InputError(
            f"{where}: format_version: got {found['format_version']}, expected 1 to "
            f"{FORMAT_VERSION}; the file was changed after the fit: copy or fit it again"
        )
    kinds: dict[str, type] = {"fingerprint": str, "encoder": str, "weights": dict, "facts": dict}
    kinds |= {"vocabulary": dict, "common_words": list, "negation_words": list}
    for key, kind in kinds.items():
        if not isinstance(found.get(key), kind):
            raise InputError(f"{where}: {key}: got {found.get(key)!r}, expected {kind.__name__}")
    for key in ("common_words", "negation_words"):
        if not all(isinstance(word, str) for word in found[key]):
            raise InputError(f"{where}: {key}: expected a list of words")
    if not _is_number(found.get("scale")) or found["scale"] == 0:
        raise InputError(f"{where}: scale: got {found.get('scale')!r}, expected a number above 0")
    weights = found["weights"]
    if weights.keys() != FEATURES.keys() or not all(map(_is_number, weights.values())):
        raise InputError(
            f"{where}: weights: got {weights!r}, expected a number of at least 0 for each of "
            + ", ".join(FEATURES)
        )


def _is_number(value: object) -> bool:
    """Whether it is a finite number of at least 0."""
    return type(value) in (int, float) and 0 <= value <= sys.float_info.max  # type: ignore
