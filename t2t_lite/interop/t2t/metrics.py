"""T2T's names of metrics, and the registered metrics that stand for them."""

from collections.abc import Callable, Iterable, Mapping

from t2t_lite.errors import UsageError
from t2t_lite.interop.t2t.names import constants

__all__ = ["Metrics"]


Metrics = constants(
    "Metrics", "metrics", "Names for `eval_metrics`: all of T2T 1.15, and BITS_PER_CHAR."
)

# T2T computes them from the ids of teacher-forced predictions. Here BLEU, ROUGE, SARI, the edit
# distance and the word error rate are of decoded text. The area under the ROC curve is of the
# labels' probabilities; T2T's is of the likeliest labels alone.
REGISTERED: Mapping[str, str] = {
    Metrics.APPROX_BLEU: "bleu",
    Metrics.ACC: "accuracy",
    Metrics.ACC_TOP5: "accuracy_top5",
    Metrics.ACC_PER_SEQ: "accuracy_per_sequence",
    Metrics.APPROX_SARI: "sari",
    Metrics.BITS_PER_CHAR: "bits_per_char",
    Metrics.EDIT_DISTANCE: "edit_distance",
    Metrics.NEG_LOG_PERPLEXITY: "neg_log_perplexity",
    Metrics.PEARSON: "pearson",
    Metrics.PREFIX_ACCURACY: "prefix_accuracy",
    Metrics.RMSE: "rmse",
    Metrics.ROC_AUC: "roc_auc",
    Metrics.ROUGE_2_F: "rouge_2",
    Metrics.ROUGE_L_F: "rouge_l",
    Metrics.UNPADDED_MSE: "mse",
    Metrics.WORD_ERROR_RATE: "word_error_rate",
}

# Those of them that are of numbers.
OF_NUMBERS = {REGISTERED[name] for name in (Metrics.PEARSON, Metrics.RMSE, Metrics.UNPADDED_MSE)}

_TAG = "metrics-"  # how the tags of an evaluation begin


def registered(names: Iterable[str], applies: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """Returns the registered metrics for T2T's names, BLEU first, and the names without one.

    Args:
        names: T2T's.
        applies: whether a registered metric can be computed for the problem.
    """
    found, without = [], []
    for name in dict.fromkeys(names):
        ours = REGISTERED.get(name, "")
        if ours and applies(ours):
            found.append(ours)
        else:
            without.append(name)
    return sorted(found, key=lambda name: name != "bleu"), without


def value_named(tag: str, problem: str) -> str:
    """Returns the name of an evaluation's value that TensorBoard showed under a tag of T2T's.

    Args:
        tag: `metrics-PROBLEM/METRIC`, where targets may have a name between the two; other texts
            are returned as they are.
        problem: the name of the problem that is evaluated.

    Raises:
        UsageError: the tag is that of another problem.
    """
    start, slash, name = tag.rpartition("/")
    if not slash or not start.startswith(_TAG):
        return tag
    of = start.removeprefix(_TAG).partition("/")[0]
    if of != problem:
        raise UsageError(f"{tag}: the values are those of {of}, but the problem is {problem}")
    return REGISTERED.get(name, name)
