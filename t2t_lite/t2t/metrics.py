"""T2T's names of metrics, and the registered metrics that stand for them."""

from collections.abc import Iterable, Mapping

from t2t_lite.t2t.names import constants

__all__ = ["Metrics"]


Metrics = constants(
    "Metrics", "metrics", "Names for `eval_metrics`: all of T2T 1.15, and BITS_PER_CHAR."
)

# T2T's approximate BLEU and ROUGE count subwords of teacher-forced predictions; here they are those
# of decoded text.
REGISTERED: Mapping[str, str] = {
    Metrics.APPROX_BLEU: "bleu",
    Metrics.ACC: "accuracy",
    Metrics.ACC_PER_SEQ: "accuracy_per_sequence",
    Metrics.NEG_LOG_PERPLEXITY: "neg_log_perplexity",
    Metrics.ROUGE_2_F: "rouge_2",
    Metrics.ROUGE_L_F: "rouge_l",
}


def registered(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns the registered metrics for T2T's names, BLEU first, and the names without one."""
    wanted = list(names)
    found = dict.fromkeys(REGISTERED[name] for name in wanted if name in REGISTERED)
    without = [name for name in wanted if name not in REGISTERED]
    return sorted(found, key=lambda name: name != "bleu"), without
