"""SIM, SIMILE and BLEU once more, as slowly as they are written in the paper; nothing of ours."""

import json
import math
import re
import unicodedata
from pathlib import Path

import sacrebleu
import sentencepiece
from safetensors.torch import load_file


class Oracle:
    """Scores of one pair at a time, from the three files of an encoder folder."""

    def __init__(self, folder: Path, alpha: float = 0.25) -> None:
        self.table = load_file(folder / "encoder.safetensors")["embeddings"].double().tolist()
        self.model = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.model"))
        wanted = {
            "lowercase": True,
            "nfkc": True,
            "split_punctuation": True,
            "drop_invisible": True,
        }
        assert json.loads((folder / "config.json").read_text())["preprocessing"] == wanted
        self.alpha = alpha

    def pieces(self, sentence: str) -> list[int]:
        text = ""
        seen = re.sub("[\u00ad\u2060\u202a-\u202e\u2066-\u2069]", "", sentence)
        seen = re.sub("[\u061c\u200b\u200e\u200f\ufeff]", " ", seen)
        for char in unicodedata.normalize("NFKC", seen).lower():
            category = unicodedata.category(char)
            if char == "\u2581" or category in ("Cc", "Zl", "Zp"):
                text += " "
            else:
                text += f" {char} " if category[0] in "PS" else char
        ids = self.model.encode(" ".join(text.split()))
        unknown = self.model.unk_id()
        # A word mark before an unknown word is no piece that two sentences could share.
        lone = unknown in ids and set(ids) <= {unknown, self.model.piece_to_id("\u2581")}
        return [unknown] * len(ids) if lone else ids

    def pair(self, hyp: str, ref: str) -> tuple[float, float]:
        """SIM and SIMILE."""
        means, lengths = [], []
        for ids in (self.pieces(hyp), self.pieces(ref)):
            rows = [self.table[i] for i in ids if i != self.model.unk_id()]
            means.append([sum(column) / len(rows) for column in zip(*rows, strict=True)])
            lengths.append(len(ids))
        if not means[0] or not means[1]:
            return 0.0, 0.0
        dot = sum(a * b for a, b in zip(*means, strict=True))
        sim = dot / math.sqrt(math.prod(sum(a * a for a in mean) for mean in means))
        return sim, math.exp(1 - max(lengths) / min(lengths)) ** self.alpha * sim

    def corpus(self, hyps: list[str], refs: list[str]) -> dict[str, float]:
        """Percent: BLEU of the corpus, means of SIM and SIMILE."""
        sims = [self.pair(hyp, ref) for hyp, ref in zip(hyps, refs, strict=True)]
        sim, simile = (100 * sum(column) / len(hyps) for column in zip(*sims, strict=True))
        bleu = sacrebleu.metrics.BLEU().corpus_score(hyps, [refs]).score
        return {"BLEU": bleu, "SIM": sim, "SIMILE": simile}
