"""Which modules of tensor2tensor are offered, and what to write instead of the others."""

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher

from t2t_lite.registry import snake_case
from t2t_lite.t2t.placeholders import MissingNameError, Placeholder, placeholder
from t2t_lite.upstream_imports import ROOT, is_executing

_PAGE = "docs/t2t-names.md"
_MODEL = "port the model: docs/extending.md#a-model"
_SETS = "t2t-trainer --registry_help lists the models and sets that are here"
_SAMPLES = "generate_samples of a text_problems.Text2TextProblem, which yields texts"
_PROBLEM = "the registered problem algorithmic_"
_OWN_COPY = "copy the module into your user directory"
_OWN_NAME = "copy its definition into your user directory"

# The modules that are offered, each with its module in this folder.
MODULES: Mapping[str, str] = {
    "data_generators.algorithmic": "algorithmic",
    "data_generators.cipher": "cipher",
    "data_generators.cleaner_en_xx": "cleaner_en_xx",
    "data_generators.cnn_dailymail": "text_sets",
    "data_generators.generator_utils": "generator_utils",
    "data_generators.imdb": "text_sets",
    "data_generators.lm1b": "text_sets",
    "data_generators.problem": "problem",
    "data_generators.ptb": "text_sets",
    "data_generators.text_encoder": "text_encoder",
    "data_generators.text_problems": "text_problems",
    "data_generators.tokenizer": "tokenizer",
    "data_generators.transduction_problems": "transduction_problems",
    "data_generators.translate": "translate",
    "data_generators.translate_encs": "translations",
    "data_generators.translate_ende": "wmt",
    "data_generators.translate_enes": "translations",
    "data_generators.translate_enet": "translations",
    "data_generators.translate_enfr": "wmt",
    "data_generators.translate_enid": "translations",
    "data_generators.translate_enmk": "translations",
    "data_generators.translate_enro": "translations",
    "data_generators.translate_entn": "translations",
    "data_generators.translate_envi": "translations",
    "data_generators.translate_enzh": "translations",
    "data_generators.wikitext103": "text_sets",
    "data_generators.wsj_parsing": "wsj_parsing",
    "layers.common_hparams": "common_hparams",
    "layers.modalities": "modalities",
    "models.bytenet": "hparams_sets",
    "models.evolved_transformer": "hparams_sets",
    "models.lstm": "hparams_sets",
    "models.neural_gpu": "hparams_sets",
    "models.research.attention_lm": "hparams_sets",
    "models.research.universal_transformer": "hparams_sets",
    "models.transformer": "hparams_sets",
    "problems": "problems",
    "utils.flags": "flags",
    "utils.hparam": "hparam",
    "utils.metrics": "metrics",
    "utils.mlperf_log": "mlperf_log",
    "utils.registry": "registry",
}

# What to write instead of a module, or of one name of a module. The modules here can be imported,
# since many files do so without using them; their names cannot.
REPLACEMENTS: Mapping[str, str] = {
    "bin": "the commands are t2t-datagen, t2t-trainer, ...; in Python, see docs/api.md",
    "data_generators.algorithmic.AlgorithmicAdditionBinary40": f"{_PROBLEM}addition_binary40",
    "data_generators.algorithmic.AlgorithmicAdditionDecimal40": f"{_PROBLEM}addition_decimal40",
    "data_generators.algorithmic.AlgorithmicMultiplicationBinary40": (
        f"{_PROBLEM}multiplication_binary40"
    ),
    "data_generators.algorithmic.AlgorithmicMultiplicationDecimal40": (
        f"{_PROBLEM}multiplication_decimal40"
    ),
    "data_generators.generator_utils.pack_examples": "remove it: batches are of similar lengths",
    "data_generators.generator_utils.pack_dataset": "remove it: batches are of similar lengths",
    "data_generators.problem.Text2TextProblem": "text_problems.Text2TextProblem",
    "data_generators.text_encoder.ImageEncoder": "there are no images here",
    "data_generators.text_encoder.OneHotClassLabelEncoder": "ClassLabelEncoder",
    "data_generators.text_encoder.RealEncoder": "there is no regression here",
    "data_generators.translate.bi_vocabs_token_generator": _SAMPLES,
    "data_generators.translate.character_generator": f"{_SAMPLES}; vocab_type is CHARACTER",
    "data_generators.translate.tabbed_generator": _SAMPLES,
    "data_generators.translate.token_generator": _SAMPLES,
    "data_generators.wiki_lm": (
        "the registered problem languagemodel_wikitext103, text2self_tmpdir for text of your own, "
        f"or {_OWN_COPY}"
    ),
    "data_generators.wmt": "translate.TranslateProblem, translate_ende, translate_enfr and so on",
    "data_generators.wsj_parsing.parsing_token_generator": "wsj_parsing.WsjParsing",
    "data_generators.wsj_parsing.token_generator": _SAMPLES,
    "layers.common_attention": _MODEL,
    "layers.common_layers": _MODEL,
    "layers.discretization": _MODEL,
    "layers.latent_layers": _MODEL,
    "layers.transformer_layers": _MODEL,
    "layers.vq_discrete": _MODEL,
    "models.research.transformer_moe": _SETS,
    "models.research.transformer_vae": _SETS,
    "models.text_cnn": _SETS,
    "rl": "there is no reinforcement learning here",
    "serving": "t2t-exporter, t2t-serve and t2t-query-server",
    "utils.adafactor": "the hparam optimizer=adafactor",
    "utils.avg_checkpoints": "t2t-avg-checkpoints",
    "utils.beam_search": "t2t_lite.search (docs/api.md)",
    "utils.bleu_hook": "t2t-bleu, or the metric bleu (docs/evaluation.md)",
    "utils.contrib": "TensorFlow 2 has no contrib: use tf.io, tf.data or Keras",
    "utils.data_reader": "t2t_lite.data.input_pipeline",
    "utils.decoding": "t2t-decoder, or t2t_lite.open_run(...).translator() (docs/api.md)",
    "utils.expert_utils": _MODEL,
    "utils.learning_rate": "the hparam learning_rate_schedule (docs/training.md)",
    "utils.metrics_hook": "--eval_early_stopping_steps (docs/training.md)",
    "utils.optimize": "the hparam optimizer (docs/training.md)",
    "utils.registry.register_optimizer": "choose one with the hparam optimizer",
    "utils.rouge": "the metrics rouge_1, rouge_2 and rouge_l (docs/evaluation.md)",
    "utils.t2t_model": _MODEL,
    "utils.trainer_lib": "t2t_lite.train (docs/api.md)",
    "utils.usr_dir": "t2t_lite.registry.import_usr_dir",
    "visualization": "t2t-insights",
}

# T2T's modules of problems that are not offered: a class that builds on one of theirs needs a copy.
PROBLEM_MODULES = """
    algorithmic_math algorithmic_math_deepmind algorithmic_math_two_variables all_problems audio
    audio_encoder babi_qa cifar cola common_voice conll_ner desc2code dialog_abstract
    dialog_cornell dialog_dailydialog dialog_opensubtitles dialog_personachat dna_encoder enwik8
    function_docstring gene_expression ice_parsing image_utils imagenet lambada librispeech
    lm1b_imdb lm1b_mnli mnist mrpc mscoco multi_problem multi_problem_v2 multinli paraphrase_ms_coco
    pointer_generator_word problem_hparams program_search qnli quora_qpairs rte scitail seq2edits
    snli speech_recognition squad sst_binary stanford_nli style_transfer subject_verb_agreement
    timeseries translate_encs_cubbitt video_utils wiki
    wiki_multi_problems wiki_revision wiki_revision_utils wnli yelp_full yelp_polarity
"""
_ABSENT = {
    **{f"data_generators.{name}": _OWN_COPY for name in PROBLEM_MODULES.split()},
    **{name: text for name, text in REPLACEMENTS.items() if name.rpartition(".")[0] not in MODULES},
}
_PACKAGES = {"", "data_generators", "layers", "models", "models.research", "utils"}


def spec(fullname: str, packages: Iterable[str] = ()) -> importlib.machinery.ModuleSpec:
    """Returns the spec of a module of tensor2tensor.

    Args:
        fullname: its name, such as `tensor2tensor.data_generators.problem`.
        packages: user directories, which may have copies of T2T's modules of problems.

    Returns:
        The spec; a module that is not here has placeholders for names.

    Raises:
        MissingNameError: the name is a misspelt one of a module that is here.
    """
    name = fullname.removeprefix(ROOT).removeprefix(".")
    folder, _, module = name.rpartition(".")
    is_known = name in _PACKAGES or name in MODULES or name in _ABSENT
    if not is_known and (near := _near(module, _modules_in(folder))):
        raise MissingNameError(f"{fullname} does not exist; did you mean {near!r}? (see {_PAGE})")
    target = f"{__package__}.{MODULES[name]}" if name in MODULES else ""
    if not target and folder == "data_generators":
        copies = (f"{package}.{module}" for package in packages if package in sys.modules)
        # A copy that imports the module of its own name means T2T's.
        others = (copy for copy in copies if not is_executing(copy))
        target = next((copy for copy in others if importlib.util.find_spec(copy)), "")
    is_package = name in _PACKAGES or name not in MODULES
    return importlib.machinery.ModuleSpec(fullname, _Loader(target), is_package=is_package)


def missing(module: str, name: str, known: Iterable[str] = ()) -> Placeholder:
    """Returns the placeholder of a name that is not there.

    Args:
        module: the module, without the leading `tensor2tensor`.
        name: the missing name in it.
        known: the names that are there.
    """
    full = ".".join(filter(None, (module, name)))
    parents = (module.rsplit(".", n)[0] for n in range(module.count(".") + 1))
    text = REPLACEMENTS.get(full) or next((_ABSENT[p] for p in parents if p in _ABSENT), "")
    rest = _OWN_NAME if module.startswith("data_generators.") else _MODEL
    if near := _near(name, known):
        instead = f"; did you mean {near!r}?"
    else:
        instead = f"; instead: {text or rest}"
    return placeholder(
        f"{ROOT}.{full}",
        f"is not available in t2t_lite{instead}; {_PAGE} lists what is",
    )


def _modules_in(folder: str) -> list[str]:
    found = (name.rpartition(".") for name in (*MODULES, *_PACKAGES))
    return [name for parent, _, name in found if parent == folder and name]


def _near(name: str, known: Iterable[str]) -> str:
    """Returns the known name that differs by the letters of one word; "": none.

    T2T's own names of the same kind, such as those of two sets, differ by words or numbers.
    """
    words = snake_case(name).split("_")
    for entry in known:
        others = snake_case(entry).split("_")
        differing = [pair for pair in zip(words, others, strict=False) if pair[0] != pair[1]]
        if len(words) == len(others) and len(differing) == 1:
            one, other = differing[0]
            is_spelling = [c for c in one if c.isdigit()] == [c for c in other if c.isdigit()]
            if is_spelling and SequenceMatcher(None, one, other).ratio() >= 0.8:
                return entry
    return ""


class _Loader(importlib.abc.Loader):
    """Puts another module, or an empty one, under the name that is imported.

    Args:
        target: name of the other module; empty: none.
    """

    def __init__(self, target: str) -> None:
        self._target = target

    def exec_module(self, module: types.ModuleType) -> None:
        """Fills the module."""
        fullname = module.__name__
        name = fullname.removeprefix(ROOT).removeprefix(".")
        if self._target:
            other = sys.modules[fullname] = importlib.import_module(self._target)
            look_up = functools.partial(_missing_name, name, tuple(getattr(other, "__all__", ())))
            if name in MODULES:
                vars(other).setdefault("__getattr__", look_up)
        elif name in _PACKAGES:
            vars(module)["__getattr__"] = functools.partial(_submodule, fullname)
        else:
            vars(module)["__getattr__"] = functools.partial(_missing_name, name, ())


def _missing_name(module: str, known: tuple[str, ...], name: str) -> Placeholder:
    """Is the `__getattr__` of a module."""
    if name.startswith("__"):
        raise AttributeError(name)
    return missing(module, name, known)


def _submodule(package: str, name: str) -> types.ModuleType:
    """Is the `__getattr__` of a package."""
    if name.startswith("__"):
        raise AttributeError(name)
    return importlib.import_module(f"{package}.{name}")
