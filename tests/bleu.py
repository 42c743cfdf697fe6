"""sacreBLEU's statistics of one sentence, for tests."""

from simile_plugin.reward.bleu import list_statistics


def bleu_statistics(hyp: str, ref: str, tokenize: str = "13a") -> list[int]:
    """sys_len, ref_len, matches of orders 1 to 4, n-grams of the hypothesis of orders 1 to 4."""
    found: list[int] = list_statistics([[hyp]], [ref], tokenize)[0, 0].tolist()
    return found
