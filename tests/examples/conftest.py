"""A folder that has every file that the pages name, small."""

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from tests.examples.shell import Shell, started_shell

ROOT = Path(__file__).parents[2]
SUBJECTS = {
    **{"der alte mann": "the old man", "die kleine schwester": "the little sister"},
    **{"ein müder fahrer": "a tired driver", "unsere nachbarin": "our neighbour"},
    **{"der junge lehrer": "the young teacher", "das kind": "the child"},
}
VERBS = {
    **{"sieht": "sees", "malt": "paints", "verkauft": "sells", "sucht": "looks for"},
    **{"repariert": "mends", "vergisst": "forgets"},
}
OBJECTS = {
    **{"das boot": "the boat", "die rote tür": "the red door", "einen brief": "a letter"},
    **{"den garten": "the garden", "zwei fahrräder": "two bicycles", "das brot": "the bread"},
}
UPDATES = 70
TINY = (
    "--arch transformer --encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 32 "
    "--decoder-embed-dim 32 --encoder-ffn-embed-dim 32 --decoder-ffn-embed-dim 32 "
    "--encoder-attention-heads 2 --decoder-attention-heads 2 --optimizer adam --batch-size 20 "
    "--num-workers 0 --no-progress-bar --seed 7 "
)


def pairs() -> list[tuple[str, str]]:
    """Return 216 sentences of German and their translations; neighbours differ in every part."""
    every = list(itertools.product(SUBJECTS.items(), VERBS.items(), OBJECTS.items()))
    mixed = [every[i * 37 % len(every)] for i in range(len(every))]
    return [
        (f"{who} {does} {what}.", f"{who_en} {does_en} {what_en}.")
        for (who, who_en), (does, does_en), (what, what_en) in mixed
    ]


def write_texts(folder: Path) -> None:
    """Write the bitext by the pages' names; `hau` is the German under another name."""
    every = pairs()
    for name, part in (("train", every[:160]), ("dev", every[160:190]), ("test", every[190:])):
        for language, side in (("de", 0), ("en", 1), ("hau", 0)):
            lines = [pair[side] for pair in part]
            (folder / f"{name}.{language}").write_text("\n".join(lines) + "\n")
    english = [english for _, english in every]
    (folder / "before.en").write_text((folder / "test.en").read_text().replace("the ", "a "))
    (folder / "after.en").write_text((folder / "test.en").read_text().replace("boat", "ship"))
    (folder / "output.comet").write_text("".join(f"0.{70 + i}\n" for i in range(26)))
    (folder / "mono.en").write_text("\n".join(english[:40]) + "\n")
    shutil.copy(folder / "train.en", folder / "text.en")
    paraphrases = [f"{line}\t{line.replace('the ', 'that ')}\n" for line in english]
    (folder / "pairs.tsv").write_text("".join(paraphrases))
    judged = [
        f"{line}\t{other}\t{len(set(line.split()) & set(other.split())) / 4}\n"
        for line, other in itertools.pairwise(english)
    ]
    (folder / "FILE").write_text("hypothesis\treference\thuman_z\n" + "".join(judged))
    (folder / "DIR").mkdir()
    (folder / "DIR" / "STS.input.mine.txt").write_text("".join(paraphrases))
    (folder / "DIR" / "STS.gs.mine.txt").write_text(
        "".join(f"{i % 6}\n" for i in range(len(paraphrases)))
    )


def make_fairseq(folder: Path, shell: Shell, proto: bytes) -> None:
    """Make data-bin (de-en), DATA (en-hau), mle.pt, and what a fine-tuning leaves in `tuned`."""
    model = sentencepiece.SentencePieceProcessor(model_proto=proto)
    for path in [*folder.glob("*.de"), *folder.glob("*.en"), *folder.glob("*.hau")]:
        rows = (" ".join(model.encode(line, out_type=str)) for line in path.open())
        name = f"{path.stem}.bpe{path.suffix}"
        (folder / name).write_text("".join(f"{row}\n" for row in rows))
    bits = "--trainpref train.bpe --validpref dev.bpe --testpref test.bpe --workers 1"
    text = f"""
fairseq-preprocess -s de -t en {bits} --destdir data-bin --joined-dictionary
fairseq-preprocess -s en -t hau {bits} --destdir DATA --joined-dictionary
for data in data-bin DATA; do
    fairseq-train $data {TINY} --user-dir "$(simile user-dir)" --lr 1e-2 --max-update 60 \
        --criterion label_smoothed_cross_entropy --save-dir $data.mle --disable-validation \
        --no-epoch-checkpoints
done
mv data-bin.mle/checkpoint_last.pt mle.pt
mv DATA.mle/checkpoint_last.pt en-hau.pt
mkdir risk.1 risk.2
cp mle.pt risk.1/checkpoint_last.pt
cp mle.pt risk.2/checkpoint_last.pt
"""
    done = shell.run(text, folder)
    assert done.returncode == 0, done.stdout[-3000:]


def make_published(folder: Path) -> None:
    """Make the models of the hub that the pages name, tiny, with the settings of the real ones."""
    import simile_plugin.hugging_face  # noqa: F401 (before transformers)
    from tests.hugging_face_models import LAYERS, marian, nllb, save

    # Helsinki-NLP/opus-mt-de-en: config.json and generation_config.json of the hub, but for sizes.
    sizes = LAYERS | {f"{side}_ffn_dim": 128 for side in ("encoder", "decoder")} | {"d_model": 64}
    model, tokenizer = marian(
        folder / "files",
        **sizes,
        activation_function="swish",
        scale_embedding=True,
        static_position_embeddings=True,
        share_encoder_decoder_embeddings=True,
    )
    model.generation_config.update(
        num_beams=6,
        max_length=512,
        bad_words_ids=[[model.config.pad_token_id]],
        renormalize_logits=True,
    )
    train_a_little(model, tokenizer)
    for name in ("Helsinki-NLP/opus-mt-de-en", *(f"tuned.{seed}" for seed in (1, 2, 3))):
        save((model, tokenizer), folder / name)
    save(nllb(), folder / "facebook" / "nllb-200-distilled-600M")


def train_a_little(model: Any, tokenizer: Any) -> None:
    """Train a model on the bitext until it translates some of it."""
    import torch

    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for update in range(UPDATES):
        rows = pairs()[update * 20 % 160 :][:20]
        sources, targets = map(list, zip(*rows, strict=True))
        batch = tokenizer(sources, text_target=targets, return_tensors="pt", padding=True)
        batch["labels"][batch["labels"] == tokenizer.pad_token_id] = -100
        model.train()
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with started_shell(tmp_path_factory.mktemp("shell") / "env" / "bin") as shell:
        yield shell


@pytest.fixture(scope="session")
def world(
    tmp_path_factory: pytest.TempPathFactory, shell: Shell, encoder_folder: Path, spm_proto: bytes
) -> Path:
    folder = tmp_path_factory.mktemp("world")
    write_texts(folder)
    make_fairseq(folder, shell, spm_proto)
    make_published(folder)
    for name in ("ENCODER", "other-encoder", "FOLDER"):
        shutil.copytree(encoder_folder, folder / name)
    done = shell.run(
        "simile distil-encoder default --source train.en --target train.hau --output en-hau", folder
    )
    assert done.returncode == 0, done.stdout
    (folder / "simile-plugin").symlink_to(ROOT)
    (folder / "recipes").symlink_to(ROOT / "recipes")
    return folder
