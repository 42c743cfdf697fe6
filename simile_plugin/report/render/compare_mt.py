"""compare-mt's own HTML report, made through its Python interface."""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Sequence

from simile_plugin.files import atomic_folder
from simile_plugin.report.inputs.texts import Sentences

PAGE = "index.html"


def write_compare_mt(
    folder: str, title: str, names: Sequence[str], refs: Sentences, outputs: Sequence[Sentences]
) -> str:
    """Write compare-mt's report of two outputs of one test set into a folder, all or nothing.

    It holds scores, word F1 by frequency, sentences by length and score, n-grams and examples.
    Its significance tests (compare_mt.sign_utils) are left out: they count ties as wins.

    Args:
        refs, outputs: tokenised.

    Returns:
        The path of its page.

    Raises:
        InputError: if the folder holds other files than such a report.
    """
    from compare_mt import compare_mt_main as main
    from compare_mt import reporters

    # compare-mt takes names and sizes from its module.
    reporters.sys_names, reporters.fig_size = list(names), (6.0, 4.5)
    cutoffs = "1:2:6:11:101:1001"
    with (
        atomic_folder(folder, marker=PAGE) as made,
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        lengths = [
            main.generate_score_report(refs, outputs, score_type=t) for t in ("bleu", "length")
        ]
        words = [main.generate_word_accuracy_report(refs, outputs, bucket_cutoffs=cutoffs)]
        sentences = [
            main.generate_sentence_bucketed_report(
                refs, outputs, bucket_type="length", statistic_type="score", score_measure="bleu"
            ),
            main.generate_sentence_bucketed_report(refs, outputs, bucket_type="lengthdiff"),
        ]
        ngrams = [main.generate_ngram_report(refs, outputs)]
        examples = [main.generate_sentence_examples(refs, outputs)]
        parts = [("Scores", lengths), ("Word F1", words), ("Sentence buckets", sentences)]
        parts += [("Characteristic n-grams", ngrams), ("Sentence examples", examples)]
        reporters.generate_html_report(parts, str(made), title)
    return os.path.join(folder, PAGE)
