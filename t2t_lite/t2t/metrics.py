"""T2T's names of metrics, and the registered metrics that stand for them."""

from collections.abc import Iterable, Mapping

__all__ = ["Metrics"]


class Metrics:
    """Names for `eval_metrics`: all of T2T 1.15, and BITS_PER_CHAR."""

    ABS_ERR = "mean_absolute_error"
    ACC = "accuracy"
    ACC_MULTILABEL_MATCH3 = "accuracy_multilabel_match3"
    ACC_PER_SEQ = "accuracy_per_sequence"
    ACC_TOP5 = "accuracy_top5"
    APPROX_BLEU = "approx_bleu_score"
    APPROX_SARI = "approx_sari_score"
    BITS_PER_CHAR = "bits_per_char"
    DMOL_PERPLEXITY = "disc_mol_neg_log_perplexity"
    EDIT_DISTANCE = "edit_distance"
    IMAGE_RMSE = "image_rmse"
    IMAGE_SUMMARY = "image_summary"
    LOG_POISSON = "log_poisson"
    MASKED_NEG_LOG_PERPLEXITY = "masked_neg_log_perplexity"
    NEG_LOG_PERPLEXITY = "neg_log_perplexity"
    PEARSON = "pearson"
    PREFIX_ACCURACY = "prefix_accuracy"
    R2 = "r_squared"
    RMSE = "rmse"
    ROC_AUC = "roc_auc"
    ROUGE_2_F = "rouge_2_fscore"
    ROUGE_L_F = "rouge_L_fscore"
    SET_PRECISION = "set_precision"
    SET_RECALL = "set_recall"
    SIGMOID_ACCURACY = "sigmoid_accuracy"
    SIGMOID_ACCURACY_ONE_HOT = "sigmoid_accuracy_one_hot"
    SIGMOID_CROSS_ENTROPY_ONE_HOT = "sigmoid_cross_entropy_one_hot"
    SIGMOID_PRECISION_ONE_HOT = "sigmoid_precision_one_hot"
    SIGMOID_RECALL_ONE_HOT = "sigmoid_recall_one_hot"
    SOFTMAX_CROSS_ENTROPY_ONE_HOT = "softmax_cross_entropy_one_hot"
    TWO_CLASS_ACCURACY = "two_class_accuracy"
    TWO_CLASS_LOG_LIKELIHOOD = "two_class_log_likelihood"
    UNPADDED_MSE = "unpadded_mse"
    WORD_ERROR_RATE = "word_error_rate"


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
