"""Language models of T2T's, and T2T's problems without translation, through t2t-import."""

import json
import math
import re

import numpy as np
import pytest

from support import t2t_arithmetic, t2t_files
from support.commands import exit_code
from support.rounding import assert_close, relative_bound
from support.terms import log_prob_terms
from t2t_lite import registry
from t2t_lite.bin import t2t_decoder
from t2t_lite.interop.imports import t2t_settings
from t2t_lite.models.transformer import Transformer
from t2t_lite.runs import run_folder

PROBLEM = "languagemodel_wikitext103"
WORDS = ["the", ",", "<unk>", *(f"w{i}" for i in range(16))]
VOCAB_SIZE = 2 + len(WORDS)
SMALL = {"num_hidden_layers": 2, "hidden_size": 16, "filter_size": 24, "num_heads": 2}
SIZES = ",".join(f"{name}={value}" for name, value in SMALL.items())
# By T2T's model, set, and changes to it: every form of the layers, and of the matrices.
KINDS = {
    "pre_norm": ("transformer", "transformer_base", {}),
    "post_norm": ("transformer", "transformer_base_v1", {}),
    "tpu": ("transformer", "transformer_lm_tpu_0", {}),
    "one_embedding": (
        "transformer",
        "transformer_base",
        {"shared_embedding_and_softmax_weights": False, "shared_embedding": True},
    ),
    "attention_lm": ("attention_lm", "attention_lm_small", {}),
    "attention_lm_pre_norm": (
        "attention_lm",
        "attention_lm_base",
        {
            "layer_preprocess_sequence": "n",
            "layer_postprocess_sequence": "da",
            "shared_embedding_and_softmax_weights": True,
        },
    ),
}


def write_words(folder, name=f"vocab.{PROBLEM}.tokens", reserved=("<pad>", "<EOS>")):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f"{word}\n" for word in [*reserved, *WORDS]))


@pytest.fixture(params=list(KINDS))
def t2t(request, tmp_path):
    """A folder with T2T's files of a language model; its model, hparams and variables."""
    model, hparams_set, changes = KINDS[request.param]
    hparams = registry.hparams(hparams_set).copy(**SMALL, **changes)
    arrays = t2t_arithmetic.draw_variables(model, hparams, VOCAB_SIZE, shards=3)
    t2t_files.write_checkpoint(tmp_path / "t2t", arrays)
    changed = "".join(f",{name}={value}" for name, value in changes.items())
    t2t_files.write_flags(
        tmp_path / "t2t",
        problem=PROBLEM,
        model=model,
        hparams_set=hparams_set,
        hparams=SIZES + changed,
    )
    write_words(tmp_path / "data")
    return tmp_path, model, hparams, arrays


def features(targets):
    return {"inputs": np.zeros([len(targets), 0], np.int32), "targets": targets}


def test_logits_are_those_of_t2ts_arithmetic(t2t, capsys):
    folder, name, hparams, arrays = t2t
    assert t2t_files.import_run(folder) == 0
    assert f"{len(arrays)} variables read" in capsys.readouterr().err
    run, model = t2t_files.restored(folder)
    assert run.settings.model == name
    assert model.count_params() == sum(array.size for array in arrays.values())
    targets = np.array([[3, 10, 1, 0, 0], [6, 2, 9, 20, 4]], np.int32)
    wanted = t2t_arithmetic.logits(name, hparams, arrays, targets)
    assert_close(model(features(targets)), wanted, log_prob_terms(model, targets.shape[1]))


@pytest.mark.integration
@pytest.mark.parametrize("t2t", ["pre_norm", "attention_lm"], indirect=True)
def test_hparams_json_takes_the_place_of_all_flags(t2t):
    folder, name, hparams, arrays = t2t
    for path in (folder / "t2t").glob("flags*"):
        path.unlink()
    of_t2t = {"prepend_mode": "none", "encoder_full_attention": False, "optimizer": "Adafactor"}
    recorded = hparams.to_dict() | of_t2t
    (folder / "t2t" / "hparams.json").write_text(json.dumps(recorded))
    assert t2t_files.import_run(folder, f"--problem={PROBLEM}") == 0
    _, model = t2t_files.restored(folder)
    targets = np.array([[3, 10, 1]], np.int32)
    wanted = t2t_arithmetic.logits(name, hparams, arrays, targets)
    assert_close(model(features(targets)), wanted, log_prob_terms(model, targets.shape[1]))


@pytest.mark.parametrize("t2t", ["pre_norm", "attention_lm"], indirect=True)
def test_missing_and_unknown_variables_are_named(t2t, capsys):
    folder, name, _, arrays = t2t
    decoder = f"{name}/body/decoder/layer_1"
    missing = next(variable for variable in arrays if f"{decoder}/ffn" in variable)
    other = f"{decoder}/encdec_attention/multihead_attention/q/kernel"
    changed = {**arrays, other: np.zeros((16, 16), np.float32)}
    shape = list(changed.pop(missing).shape[-2:])
    t2t_files.write_checkpoint(folder / "t2t", changed)
    line = t2t_files.refused(folder, capsys)
    assert f"{missing} {shape} is missing; {other} [16, 16] is unknown here" in line


@pytest.mark.integration
@pytest.mark.parametrize("t2t", ["pre_norm", "attention_lm"], indirect=True)
def test_the_commands_score_and_continue_as_t2ts_arithmetic(t2t, tmp_path, capsys):
    folder, *model = t2t

    def log_probs(ids):
        return t2t_arithmetic.log_probs(*model, ids)

    def decode(*flags, text):
        (tmp_path / "in.txt").write_text(text)
        places = [f"--output_dir={folder}/run", f"--decode_to_file={tmp_path}/out.txt"]
        assert exit_code(t2t_decoder.main, *places, *flags) == 0
        return (tmp_path / "out.txt").read_text().splitlines()

    assert t2t_files.import_run(folder) == 0
    texts = [[2, 3, 9], [4, 17, 12, 6]]
    words = ["<pad>", "<EOS>", *WORDS]
    lines = [" ".join(words[id_] for id_ in ids) for ids in texts]
    scores = decode(f"--score_file={tmp_path}/in.txt", text="\n".join(lines) + "\n")
    ended = [[*ids, 1] for ids in texts]
    wanted = [log_probs(ids)[range(len(ids)), ids].sum() for ids in ended]
    length = max(map(len, ended))
    terms = length * log_prob_terms(
        run_folder.RunFolder.open(f"{folder}/run").build_model(), length
    )
    error = relative_bound(2 * terms) * -min(wanted)
    assert [float(score) for score in scores] == pytest.approx(wanted, abs=0.5e-6 + error)
    shown = re.search(r"perplexity (\S+) per token", capsys.readouterr().out)[1]
    perplexity = math.exp(-sum(wanted) / sum(map(len, ended)))
    # Four decimals are printed; the scores of two texts are divided by seven tokens.
    assert float(shown) == pytest.approx(perplexity, abs=0.5e-4 + 2 / 7 * error * perplexity)

    greedy = "--decode_hparams=beam_size=1,extra_length=5"
    found = decode(f"--decode_from_file={tmp_path}/in.txt", greedy, text=f"{lines[0]}\n\n")
    for prompt, line in zip([texts[0], []], found, strict=True):
        ids = list(prompt)
        while len(ids) < len(prompt) + 1 + 5 and ids[-1:] != [1]:
            ids.append(int(log_probs([*ids, 0])[-1].argmax()))
        assert line.split() == [words[id_] for id_ in ids[len(prompt) :] if id_ > 1]


# ---- what is refused


@pytest.mark.parametrize(
    ("t2t", "flags", "message"),
    [
        ("attention_lm", {"problem": "copy_sequence"}, "the problem has inputs, which it would"),
        ("pre_norm", {"hparams": "causal_decoder_self_attention=False"}, "causal_decoder_self_att"),
        ("pre_norm", {"model": "transformer_memory"}, "has model 'transformer_memory': only 'tran"),
        ("pre_norm", {"model": "evolved_transformer"}, "needs a source"),
        ("pre_norm", {"problem": f"{PROBLEM}_l4k"}, f"(near: {PROBLEM}"),
    ],
    indirect=["t2t"],
)
def test_other_language_models_are_refused(t2t, flags, message, capsys):
    folder, model, _, _ = t2t
    hparams_set = KINDS[{"transformer": "pre_norm"}.get(model, model)][1]
    given = {"problem": PROBLEM, "model": model, "hparams_set": hparams_set, "hparams": SIZES}
    t2t_files.write_flags(folder / "t2t", **{**given, **flags})
    write_words(folder / "data", "vocab.copy_sequence.tokens")
    assert message in t2t_files.refused(folder, capsys)


@pytest.mark.parametrize("t2t", ["post_norm"], indirect=True)
@pytest.mark.parametrize(
    ("first", "taken"), [(["of"], "of, the"), (["<pad>", "<oov>", "<EOS>"], "<pad>, <oov>")]
)
def test_a_list_that_does_not_begin_with_padding_and_eos_is_refused(t2t, first, taken, capsys):
    """T2T's list for the Penn Treebank is one: its words have the IDs of padding and EOS."""
    folder, model, hparams, _ = t2t
    arrays = t2t_arithmetic.draw_variables(model, hparams, len(WORDS) + len(first))
    t2t_files.write_checkpoint(folder / "t2t", arrays)
    write_words(folder / "data", "vocab.lmptb.10000", reserved=first)
    line = t2t_files.refused(folder, capsys, "--problem=languagemodel_ptb10k")
    assert (
        f"lmptb.10000 does not begin with <pad> and <EOS>: T2T took its first two words ({taken})"
        in line
    )
    write_words(folder / "data", "vocab.lmptb.10000", reserved=[])
    line = t2t_files.refused(folder, capsys, "--problem=languagemodel_ptb10k")
    assert "trained with another vocabulary" in line, "the list is of another length"
    t2t_files.write_checkpoint(folder / "t2t", arrays | {"extra": np.zeros(2, np.float32)})
    write_words(folder / "data")
    assert "trained with another vocabulary" in t2t_files.refused(folder, capsys)


# ---- T2T's problems with inputs


@pytest.mark.parametrize(
    ("problem", "names"),
    [
        ("languagemodel_lm1b32k", ["vocab.languagemodel_lm1b32k.32768.subwords"]),
        ("languagemodel_ptb10k", ["vocab.lmptb.10000"]),
        ("languagemodel_wikitext103", ["vocab.languagemodel_wikitext103.tokens"]),
        ("text2self_tmpdir", ["vocab.text2self_tmpdir.32768.subwords"]),
        ("copy_sequence_small", ["vocab.copy_sequence_small.tokens"]),
        ("summarize_cnn_dailymail32k", ["vocab.summarize_cnn_dailymail32k.32768.subwords"]),
        ("algorithmic_cipher_shift5", []),
        (
            "translate_enzh_wmt8k",
            [
                "vocab.translate_enzh_wmt8k.8192.subwords.en",
                "vocab.translate_enzh_wmt8k.8192.subwords.zh",
            ],
        ),
    ],
)
def test_vocabularies_have_the_names_that_t2t_writes(problem, names):
    assert registry.problem(problem).vocab_files() == names


@pytest.mark.parametrize(
    ("problem", "space"),
    [
        ("algorithmic_cipher_vigenere5", 11),
        ("algorithmic_cipher_vigenere5_rev", 10),
        ("algorithmic_cipher_vigenere5_copy", 10),
        ("copy_sequence", 0),
        ("translate_enzh_wmt32k", 0),
    ],
)
def test_target_spaces_are_those_of_t2t(problem, space):
    assert t2t_settings.target_space_id(registry.problem(problem)) == space


def two_vocabularies(folder):
    """Writes the vocabularies of translate_enzh_wmt8k; returns their sizes."""
    reserved, known = ["<pad>_", "<EOS>_"], sorted(set("\\_u;0123456789<pad>EOS"))
    folder.mkdir()
    for language, words in (("en", ["0_", "1_"]), ("zh", ["0_"])):
        subtokens = "".join(f"'{subtoken}'\n" for subtoken in reserved + known + words)
        (folder / f"vocab.translate_enzh_wmt8k.8192.subwords.{language}").write_text(subtokens)
    return len(reserved + known) + 2, len(reserved + known) + 1


@pytest.mark.integration
@pytest.mark.parametrize(
    ("problem", "suffix"), [("algorithmic_cipher_shift5", ""), ("translate_enzh_wmt8k", "_rev")]
)
def test_other_text_problems_are_imported(tmp_path, problem, suffix):
    sizes = [7, 7]
    if problem == "translate_enzh_wmt8k":
        sizes = two_vocabularies(tmp_path / "data")
    if suffix:
        sizes = sizes[::-1]
    hparams = registry.hparams("transformer_base").copy(**SMALL, use_target_space_embedding=True)
    model = Transformer(hparams, *sizes)
    for i, variable in enumerate(model.trainable_variables):
        variable.assign(np.random.RandomState(i).normal(size=variable.shape))
    space = t2t_settings.target_space_id(registry.problem(problem + suffix))
    arrays = t2t_files.t2t_arrays(model, target_space_id=space)
    t2t_files.write_checkpoint(tmp_path / "t2t", arrays)
    t2t_files.write_flags(
        tmp_path / "t2t",
        problem=problem + suffix,
        hparams_set="transformer_base",
        hparams=SIZES,
    )
    assert t2t_files.import_run(tmp_path) == 0
    run, found = t2t_files.restored(tmp_path)
    assert run.problem.name == problem + suffix
    ids = np.random.RandomState(5).randint(1, 7, (2, 3, 4)).astype("int32")
    pairs = {"inputs": ids[0], "targets": ids[1]}
    assert np.array_equal(found(pairs), model(pairs))
