"""The sentence encoders of Sjöblom et al. 2018 (section 3): word averages and GRAN, and training.

Pairs are paraphrases; as many negative pairs are made anew in each pass, of sentences of different
pairs.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import sentencepiece
import torch
from torch import Tensor

DIM, BATCH, LEARNING_RATE = 100, 128, 1e-3  # batch and rate are the paper's, the dimension is ours
MARGIN = 0.5  # m of the loss, a cosine distance; the paper does not say
DROPOUT = 0.2  # variational, of GRAN; the paper tuned it and does not say
KINDS = ("wa-words", "wa", "gran")  # the paper's WA-M, WA and GRAN


class SentenceEncoder(torch.nn.Module):
    """g(s), the mean of a_t: the embeddings x_t, which GRAN multiplies by gates.

    a_t = x_t * sigmoid(W_x x_t + W_h h_t + b), h the states of a GRU over x (Wieting and Gimpel
    2017; Sjöblom et al. 2018, section 3.1, whose GRU has a leaky ReLU for torch's tanh).
    """

    def __init__(self, tokenizer: sentencepiece.SentencePieceProcessor, gated: bool) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.embedding = torch.nn.Embedding(len(tokenizer), DIM)
        torch.nn.init.uniform_(self.embedding.weight, -0.01, 0.01)
        self.gru = torch.nn.GRU(DIM, DIM, batch_first=True) if gated else None
        self.gate = torch.nn.Linear(2 * DIM, DIM) if gated else None
        if self.gru:
            for weight in self.gru.parameters():
                if weight.dim() == 2:
                    torch.nn.init.xavier_uniform_(weight)

    def forward(self, sentences: Sequence[str]) -> Tensor:
        """Return the vectors (n, DIM) of n sentences."""
        rows = [ids or [0] for ids in self.tokenizer.encode([split(text) for text in sentences])]
        lengths = torch.tensor([len(row) for row in rows])
        ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(r) for r in rows], batch_first=True)
        inputs = self.embedding(ids)
        if self.gru and self.gate:
            # The same entries at every position (Gal and Ghahramani 2016).
            kept = torch.ones(len(rows), 1, DIM)
            inputs = inputs * torch.nn.functional.dropout(kept, DROPOUT, self.training)
            # Padding comes after the sentence, so that it changes none of its states.
            states, _ = self.gru(inputs)
            inputs = inputs * torch.sigmoid(self.gate(torch.cat([inputs, states], dim=2)))
        known = torch.arange(ids.shape[1]) < lengths[:, None]
        mean: Tensor = (inputs * known[:, :, None]).sum(1) / lengths[:, None]
        return mean

    @torch.no_grad()
    def embed(self, sentences: Sequence[str]) -> Tensor:
        """Return the vectors (n, DIM) without gradient and dropout."""
        self.eval()
        parts = [self(sentences[at : at + BATCH]) for at in range(0, len(sentences), BATCH)]
        return torch.cat(parts)


def split(text: str) -> str:
    """Lowercase, with spaces around punctuation."""
    return re.sub(r"([^\w\s])", r" \1 ", text.lower())


def train_tokenizer(texts: Sequence[str], kind: str, size: int) -> bytes:
    """Train sentencepiece: whole words for wa-words, else pieces (the paper's are Morfessor's)."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([split(text) for text in texts]),
        model_writer=model,
        model_type="word" if kind == "wa-words" else "unigram",
        vocab_size=size,
        hard_vocab_limit=False,
        use_all_vocab=False,
        minloglevel=2,
    )
    return model.getvalue()


def pair_loss(left: Tensor, right: Tensor, margin: float = MARGIN) -> Tensor:
    """Mean of d and, of pairs that are none, of max(0, m - d)^2; d is the cosine distance.

    A minibatch (n, DIM) twice, in random order: each left sentence with the next right one is a
    negative pair. Section 3.2, where y is 1 for negative pairs.
    """
    positive = 1 - torch.cosine_similarity(left, right)
    negative = 1 - torch.cosine_similarity(left, right.roll(1, 0))
    return (positive + (margin - negative).clamp(min=0) ** 2).mean() / 2


def train_encoder(
    pairs: Sequence[tuple[str, str]], kind: str, size: int, epochs: int, seed: int
) -> SentenceEncoder:
    """Train one of KINDS on paraphrases by Adam."""
    torch.manual_seed(seed)
    proto = train_tokenizer([text for pair in pairs for text in pair], kind, size)
    tokenizer = sentencepiece.SentencePieceProcessor(model_proto=proto)
    encoder = SentenceEncoder(tokenizer, gated=kind == "gran")
    optimizer = torch.optim.Adam(encoder.parameters(), lr=LEARNING_RATE)
    for _ in range(epochs):
        encoder.train()
        for rows in torch.randperm(len(pairs)).split(BATCH):
            left = encoder([pairs[row][0] for row in rows])
            right = encoder([pairs[row][1] for row in rows])
            optimizer.zero_grad()
            pair_loss(left, right).backward()
            optimizer.step()
    return encoder
