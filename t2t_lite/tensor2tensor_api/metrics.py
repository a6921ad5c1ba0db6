"""T2T's names of metrics, and the registered metrics that stand for them."""

from collections.abc import Iterable, Mapping

__all__ = ["Metrics"]


class Metrics:
    """Names for `eval_metrics`."""

    ACC = "accuracy"
    ACC_TOP5 = "accuracy_top5"
    ACC_PER_SEQ = "accuracy_per_sequence"
    NEG_LOG_PERPLEXITY = "neg_log_perplexity"
    APPROX_BLEU = "approx_bleu_score"
    ROUGE_2_F = "rouge_2_fscore"
    ROUGE_L_F = "rouge_L_fscore"
    EDIT_DISTANCE = "edit_distance"
    PREFIX_ACCURACY = "prefix_accuracy"
    RMSE = "rmse"
    PEARSON = "pearson"
    WORD_ERROR_RATE = "word_error_rate"


# T2T's approximate BLEU counts subwords of teacher-forced predictions; here it is BLEU.
REGISTERED: Mapping[str, str] = {
    Metrics.APPROX_BLEU: "bleu",
    Metrics.ACC: "accuracy",
    Metrics.ACC_PER_SEQ: "accuracy_per_sequence",
    Metrics.NEG_LOG_PERPLEXITY: "neg_log_perplexity",
}


def registered(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns the registered metrics for T2T's names, BLEU first, and the names without one."""
    wanted = list(names)
    found = dict.fromkeys(REGISTERED[name] for name in wanted if name in REGISTERED)
    without = [name for name in wanted if name not in REGISTERED]
    return sorted(found, key=lambda name: name != "bleu"), without
