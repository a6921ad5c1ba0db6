"""Decoding with CTranslate2: the outputs, scores, details and limits are those of TensorFlow."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from support.commands import exit_code
from support.imported_runs import LANGUAGES, imported_run
from support.instructions import error_of_8_bits
from support.rounding import assert_close
from support.terms import log_prob_terms
from t2t_lite import processor
from t2t_lite.bin import t2t_decoder
from t2t_lite.decoding.config import COMPUTE_TYPES, CTRANSLATE2, FLOAT32, DecoderConfig
from t2t_lite.decoding.ctranslate2_engine import REFUSED
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.decoding_origin import DecodingOrigin
from t2t_lite.decoding.engine import Target
from t2t_lite.decoding.engines import faster_engine, open_ctranslate2, open_tensorflow
from t2t_lite.decoding.hypotheses import Source
from t2t_lite.decoding.loading import find_models, load_decoder
from t2t_lite.decoding.tensorflow_engine import padded
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.errors import UsageError, UserError
from t2t_lite.search.decode_hparams import LENGTH_PENALTIES, DecodeHParams
from t2t_lite.text import imported_encoder
from t2t_lite.text.alignment.shortlist import Shortlist
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID

LINES = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9 w1", "w1 w1", "", "w9 w8"]
SEARCH = "source_language=de,target_language=en,extra_length=8"

# Every decode hparam is here or in `REFUSED`.
MAPPED = {
    "beam_size",
    "alpha",
    "length_penalty",
    "coverage_penalty",
    "min_length",
    "no_repeat_ngram_size",
    "replace_unk",
    "extra_length",
    "length_factor",
    "end_at_limit",
    "batch_size",
    "return_beams",
    "write_beam_scores",
    "source_language",
    "target_language",
    "max_input_size",
    "shortlist",
    "term_mode",
}
WITHOUT_EFFECT = {
    "stopping": "the search ends when 1.5 times beam_size outputs have ended",
    "seed": "of sampling, which is refused",
    "sampling_temp": "of sampling",
    "sampling_keep_top_k": "of sampling",
    "sampling_keep_top_p": "of sampling",
}


@pytest.fixture(autouse=True)
def _one_core(monkeypatch):
    """Threads take longer to wait for each other than for products of these sizes."""
    monkeypatch.setattr(processor, "cores", lambda: 1)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Ids 2 (unknown) and 5 are never output."""
    return imported_run(tmp_path_factory.mktemp("runs") / "run", suppressed_ids="2+5")


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory):
    """Every id may be output, so that scores are CTranslate2's own."""
    return imported_run(tmp_path_factory.mktemp("runs") / "plain_run")


@pytest.fixture(scope="module")
def translation_run(tmp_path_factory):
    """Sources name the language, so that no token of outputs is given."""
    folder = tmp_path_factory.mktemp("runs") / "translation_run"
    return imported_run(folder, language_of=imported_encoder.TRANSLATION)


def decoders(run, changes, **settings):
    """Returns the decoders of the two engines."""
    hparams = DecodeHParams.of(run.problem, f"{SEARCH},{changes}".strip(","))
    return [
        Decoder.from_run(run, hparams=hparams, engine=engine, **settings)
        for engine in (CTRANSLATE2, "tensorflow")
    ]


def terms_of(decoder, length=40):
    return log_prob_terms(decoder.engine.models[0], length) + length


def worker_of(decoder):
    [(_, worker)] = decoder.engine.map(lambda worker, _: worker, [()])
    return worker


@pytest.mark.integration
@pytest.mark.parametrize(
    "changes",
    [
        *("", "min_length=4", "no_repeat_ngram_size=1", "batch_size=2"),
        "end_at_limit=true,length_factor=0",
    ],
)
def test_greedy_outputs_are_those_of_tensorflow(run, changes):
    found, expected = (
        decoder.decode(decoder.text.encode(LINES))
        for decoder in decoders(run, f"beam_size=1,{changes}")
    )
    assert [[h.ids for h in beams] for beams in found] == [
        [h.ids for h in beams] for beams in expected
    ]
    assert found[LINES.index("")] == []


@pytest.mark.integration
@pytest.mark.parametrize("beam_size", [1, 2])
@pytest.mark.parametrize("changes", ["", "min_length=4", "no_repeat_ngram_size=2"])
def test_outputs_are_the_same_if_nobody_sees_their_scores(run, beam_size, changes):
    hparams = DecodeHParams.of(run.problem, f"{SEARCH},beam_size={beam_size},{changes}".strip(","))
    found = []
    for with_scores in (True, False):
        opened = open_ctranslate2([TrainedModel(run, "")], hparams, with_scores=with_scores)
        decoder = Decoder(opened.engine, run.problem)
        found.append([beams[:1] for beams in decoder.decode(decoder.text.encode(LINES))])
    shown, hidden = found
    assert [[h.ids for h in beams] for beams in hidden] == [
        [h.ids for h in beams] for beams in shown
    ]
    assert all(h.score < 0 for beams in shown for h in beams)
    if beam_size == 1 and not changes:
        assert all(h.score == 0 for beams in hidden for h in beams), "not computed"


@pytest.mark.integration
@pytest.mark.parametrize(
    "changes",
    [
        "",
        "alpha=1,length_penalty=average",
        "alpha=-0.5",
        "coverage_penalty=0.3",
        "min_length=3",
        "no_repeat_ngram_size=2",
    ],
)
@pytest.mark.parametrize("kind", ["run", "plain_run"])
@pytest.mark.usefixtures("eagerly")
def test_scores_are_those_of_tensorflow_for_the_same_outputs(request, kind, changes):
    """Of all hypotheses, which are in the order of their scores."""
    run = request.getfixturevalue(kind)
    ours, tensorflow = decoders(run, f"beam_size=4,return_beams=true,{changes}")
    sources = [source for source in ours.text.encode(LINES) if source.ids]
    found = worker_of(ours).search(sources, [30] * len(sources))
    flat = [target for targets in found for target in targets if target.ids[-1] == EOS_ID]
    flat = [target for target in flat if PAD_ID not in target.ids]  # has no score in TensorFlow
    assert len(flat) > len(sources)
    expected = worker_of(tensorflow).score(flat)
    assert_close(
        np.array([target.score for target in flat]),
        np.array([target.score for target in expected]),
        terms=terms_of(tensorflow),
    )
    for targets in found:
        scores = [target.score for target in targets]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.integration
@pytest.mark.parametrize("penalty", LENGTH_PENALTIES)
def test_of_too_many_hypotheses_those_with_the_best_scores_are_returned(plain_run, penalty):
    """Up to seven have ended after a search's last step; CTranslate2 drops three by its penalty."""
    ours, _ = decoders(plain_run, f"beam_size=4,length_penalty={penalty}")
    sources = ours.text.encode(
        [f"w{i} w{j} w{k}" for i in "13579" for j in "24689" for k in "1379"]
    )
    worker = worker_of(ours)
    best = {}
    for exponent in (worker._length_exponent, 1, 3):
        worker._length_exponent = exponent
        found = worker.search(sources, [40] * len(sources))
        best[exponent] = np.array([targets[0].score for targets in found])
    own, *others = best.values()
    for other in others:
        assert (own >= other - 1e-5).all()
        assert (own > other + 0.01).sum() > len(sources) / 20, "the penalties must matter"


@pytest.mark.integration
@pytest.mark.parametrize(
    "changes", ["", "alpha=0", "coverage_penalty=0.3", "min_length=4,no_repeat_ngram_size=2"]
)
@pytest.mark.parametrize(
    ("kind", "languages"),
    [
        ("plain_run", "source_language=de,target_language=en"),
        ("translation_run", "target_language=en"),
    ],
)
def test_hypotheses_do_not_depend_on_the_batch(request, kind, languages, changes):
    """Of sources with and without prefixes, with limits that some searches reach."""
    run = request.getfixturevalue(kind)
    settings = f"{languages},beam_size=8,return_beams=true,{changes}".strip(",")
    hparams = DecodeHParams.of(run.problem, settings)
    ours = Decoder.from_run(run, hparams=hparams, engine=CTRANSLATE2)
    sources = [
        source._replace(prefix=[7, 8, 9][: number % 4])
        for number, source in enumerate(ours.text.encode([line for line in LINES if line] * 4))
    ]
    limits = [10 + number % 7 + 6 * (number % 3) for number in range(len(sources))]
    worker = worker_of(ours)
    together = worker.search(sources, limits)
    for source, limit, targets in zip(sources, limits, together, strict=True):
        [alone] = worker.search([source], [limit])
        assert [target.ids for target in targets] == [target.ids for target in alone]
        scores = ([target.score for target in each] for each in (targets, alone))
        np.testing.assert_allclose(*scores, rtol=1e-4)


@pytest.mark.integration
@pytest.mark.usefixtures("eagerly")
def test_a_prefix_counts_and_a_language_does_not(run):
    ours, tensorflow = decoders(run, "beam_size=2")
    sources = [
        source._replace(prefix=[7, 8][:number])
        for number, source in enumerate(ours.text.encode(["w1 w2", "w3", "w4 w4"]))
    ]
    found = worker_of(ours).search(sources, [30] * 3)
    for source, targets in zip(sources, found, strict=True):
        for target in targets:
            start = [LANGUAGES["en"], *source.prefix]
            assert target.ids[: len(start)] == start
    best = [targets[0] for targets in found]
    expected = worker_of(tensorflow).score(best)
    for one, other in zip(best, expected, strict=True):
        assert_close(one.score, other.score, terms=terms_of(tensorflow))


@pytest.mark.integration
@pytest.mark.usefixtures("eagerly")
def test_details_are_those_of_tensorflow(run):
    ours, tensorflow = decoders(run, "beam_size=2,return_beams=true", with_details=True)
    sources = ours.text.encode(LINES)
    ids = [beams[0].ids if beams else [] for beams in ours.decode(sources)]
    terms = terms_of(tensorflow)
    for found, expected in zip(
        ours.score(sources, ids), tensorflow.score(sources, ids), strict=True
    ):
        for one, other in zip(found, expected, strict=True):
            assert_close(one.score, other.score, terms=terms)
            assert one.details.tokens == other.details.tokens
            assert one.details.source_tokens == other.details.source_tokens
            assert_close(one.details.log_probs, other.details.log_probs, terms=terms)
            assert_close(one.details.attention, other.details.attention, terms=terms)


@pytest.mark.integration
@pytest.mark.parametrize("beam_size", [1, 3])
def test_the_limit_of_a_source_is_its_own(run, beam_size):
    """Sources of all lengths, with limits that outputs reach, alone and together."""
    ours, _ = decoders(run, f"beam_size={beam_size}")
    sources = [source for source in ours.text.encode(LINES) if source.ids]
    worker = worker_of(ours)
    limits = [len(source.ids) for source in sources]
    together = worker.search(sources, limits)
    cut = 0
    for source, limit, targets in zip(sources, limits, together, strict=True):
        [alone] = worker.search([source], [limit])
        assert [target.ids for target in targets] == [target.ids for target in alone]
        assert all(len(target.ids) <= limit for target in targets)
        cut += sum(target.ids[-1] != EOS_ID for target in targets)
    assert 0 < cut < sum(map(len, together)), "the limits must matter, and not to all"


@pytest.mark.integration
def test_what_the_model_never_outputs_does_not_come(run):
    ours, _ = decoders(run, "beam_size=8")
    outputs = [h.ids for beams in ours.decode(ours.text.encode(LINES)) for h in beams]
    assert not {2, 5} & {i for ids in outputs for i in ids}


def test_settings_are_obeyed_refused_or_without_effect():
    """A new decode hparam must be put in one of the three tables."""
    names = {field.name for field in dataclasses.fields(DecodeHParams)}
    tables = (MAPPED, set(WITHOUT_EFFECT), set(REFUSED))
    assert names == set.union(*tables)
    assert sum(map(len, tables)) == len(names)


@pytest.mark.parametrize(
    "change",
    [
        "sampling_method=random",
        "well_formed=true",
        "force_decode_length=true",
        "dtype=bfloat16",
        "xla_compile=true",
    ],
)
def test_settings_without_a_counterpart_are_refused_by_name(run, change):
    name = change.partition("=")[0]
    with pytest.raises(UsageError, match=rf"decode hparam {name}=.*use --engine=tensorflow"):
        decoders(run, change)


def test_a_search_part_is_refused_by_name(run):
    with pytest.raises(UsageError, match=r"search part object: not with --engine=ctranslate2"):
        Decoder.from_run(run, engine=CTRANSLATE2, parts=[object()])


def test_an_ensemble_is_refused(run):
    trained = [TrainedModel(run, "")] * 2
    with pytest.raises(UsageError, match=r"one model, not with 2; use --engine=tensorflow"):
        open_ctranslate2(trained, DecodeHParams())


@pytest.mark.integration
@pytest.mark.parametrize("cores", [1, 2, 3, 8])
def test_the_cores_share_the_batches_of_a_file(run, monkeypatch, cores):
    """A single line, of a person who waits, gets all of them."""
    monkeypatch.setattr(processor, "cores", lambda: cores)
    hparams = DecodeHParams.of(run.problem, f"{SEARCH},batch_size=1")
    outputs = []
    for has_many_lines in (True, False):
        opened = open_ctranslate2([TrainedModel(run, "")], hparams, has_many_lines=has_many_lines)
        translator = opened.engine._translator
        assert translator.num_translators == (min(4, cores) if has_many_lines else 1)
        decoder = Decoder(opened.engine, run.problem)
        outputs.append(decoder.decode(decoder.text.encode(LINES * 5)))
    ids = [[[h.ids for h in beams] for beams in found] for found in outputs]
    assert ids[0] == ids[1]


def test_a_type_that_is_not_to_be_had_is_refused_with_those_that_are(run):
    with pytest.raises(UserError, match=r"--compute_type=float16: .* choose from auto, .*float32"):
        Decoder.from_run(run, engine=CTRANSLATE2, compute_type="float16")


@pytest.mark.parametrize("compute_type", [t for t in COMPUTE_TYPES if t != FLOAT32])
def test_a_type_without_the_engine_that_computes_in_it_is_refused(run, compute_type):
    with pytest.raises(UsageError, match=f"--compute_type={compute_type} needs --engine=ctransl"):
        Decoder.from_run(run, compute_type=compute_type)
    with pytest.raises(UsageError, match=f"--compute_type={compute_type} needs --engine=ctransl"):
        DecoderConfig(compute_type=compute_type)


@pytest.mark.parametrize(("worker_gpu", "gpus"), [(1, 0), (8, 0), (2, 1)])
def test_gpus_that_are_not_there_are_refused(run, monkeypatch, worker_gpu, gpus):
    monkeypatch.setattr("ctranslate2.get_cuda_device_count", lambda: gpus)
    config = DecoderConfig(output_dir=str(run.folder), engine=CTRANSLATE2, worker_gpu=worker_gpu)
    message = f"--worker_gpu={worker_gpu} with --engine=ctranslate2, which sees {gpus or 'no'} GPU"
    with pytest.raises(UsageError, match=message):
        load_decoder(config, find_models(config))


def test_without_the_package_the_remedy_is_given(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UserError, match=r"not installed: pip install '\.\[ct2\]'"):
        Decoder.from_run(run, engine=CTRANSLATE2)


@pytest.mark.integration
def test_8_bit_products_change_scores_little(run):
    float32, tensorflow = decoders(run, "beam_size=1")
    hparams = float32.hparams
    int8 = Decoder.from_run(run, hparams=hparams, engine=CTRANSLATE2, compute_type="int8")
    assert int8.engine.kind == "ctranslate2, int8_float32"
    sources = [source for source in float32.text.encode(LINES) if source.ids]
    targets = [Target(source, [LANGUAGES["en"], 7, 8, EOS_ID]) for source in sources]
    one, other = (
        np.concatenate([log_probs for log_probs, _ in worker_of(decoder).details(targets)])
        for decoder in (float32, int8)
    )
    (model,) = tensorflow.engine.models
    logits = model(
        {"inputs": padded([s.ids for s in sources]), "targets": padded([t.ids for t in targets])}
    )
    error = np.sqrt(np.mean((one - other) ** 2))
    assert 0 < error < error_of_8_bits(model.hparams) * np.std(logits[..., 3:])


_COMMAND = """
import sys
from t2t_lite.bin import t2t_decoder
try:
    t2t_decoder.main()
except SystemExit as end:
    assert not end.code
loaded = {"tensorflow", "tensorflow_text", "keras"} & set(sys.modules)
assert not loaded, loaded
"""


@pytest.mark.integration
def test_the_command_loads_no_tensorflow_once_there_is_an_export(run, tmp_path):
    lines, outputs = tmp_path / "in.txt", [tmp_path / "ctranslate2", tmp_path / "tensorflow"]
    lines.write_text("".join(f"{line}\n" for line in LINES))
    Decoder.from_run(run, engine=CTRANSLATE2)  # makes the export
    flags = {
        "output_dir": run.folder,
        "decode_from_file": lines,
        "decode_hparams": f"{SEARCH},beam_size=1",
    }
    with_ctranslate2, with_tensorflow = (
        [
            *(f"--{name}={value}" for name, value in flags.items()),
            *(f"--decode_to_file={output}", f"--engine={output.name}"),
        ]
        for output in outputs
    )
    subprocess.run([sys.executable, "-c", _COMMAND, *with_ctranslate2], check=True)
    assert exit_code(t2t_decoder.main, *with_tensorflow) == 0
    assert "tensorflow" in sys.modules  # the name is right
    assert outputs[0].read_text() == outputs[1].read_text()
    assert outputs[0].read_text().count("\n") == len(LINES)


@pytest.mark.integration
def test_a_run_is_not_resumed_by_another_engine(run, tmp_path):
    """The record of a killed run belongs to the engine and type that made it."""
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("w1 w2\n")
    kinds = set()
    for engine, compute_type in (
        ("tensorflow", "float32"),
        (CTRANSLATE2, "float32"),
        (CTRANSLATE2, "int8"),
    ):
        config = DecoderConfig(
            output_dir=str(run.folder),
            decode_from_file=str(source),
            decode_to_file=str(target),
            decode_hparams=SEARCH,
            engine=engine,
            compute_type=compute_type,
        )
        decoder, trained = load_decoder(config, find_models(config))
        origin = DecodingOrigin.of(config, run).of_journal(trained, decoder)
        kinds.add(origin["engine"])
    assert len(kinds) == 3


@pytest.mark.parametrize(
    ("changes", "is_named"),
    [("", True), ("beam_size=1", True), ("sampling_method=random", False)],
)
def test_the_faster_engine_is_named_where_it_could_decode(run, changes, is_named):
    hparams = DecodeHParams.of(run.problem, changes)
    tensorflow = Decoder.from_run(run, hparams=hparams).engine
    assert ("--engine=ctranslate2" in faster_engine(tensorflow)) == is_named


def test_the_faster_engine_is_not_named_for_itself_or_an_ensemble(run):
    assert not faster_engine(Decoder.from_run(run, engine=CTRANSLATE2).engine)
    assert not faster_engine(open_tensorflow([TrainedModel(run, "")] * 2, DecodeHParams()).engine)


def test_the_faster_engine_comes_with_how_to_install_it(run, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    line = faster_engine(Decoder.from_run(run).engine)
    assert line.endswith("pip install '.[ct2]'")


@pytest.mark.integration
def test_the_search_goes_on_for_a_likelier_output(translation_run):
    """When the first four outputs have ended, the best is none of them."""
    settings = "target_language=en,extra_length=8,beam_size=4"
    hparams = DecodeHParams.of(translation_run.problem, settings)
    theirs, ours = (
        Decoder.from_run(translation_run, hparams=hparams, engine=engine)
        for engine in (CTRANSLATE2, "tensorflow")
    )
    sources = ours.text.encode(["w9 w29 w0 w13 w26 w29 w17 w29"])
    assert theirs.decode(sources)[0][0].ids == ours.decode(sources)[0][0].ids


def list_file(run, path, always, translations=None):
    """Writes a short list; returns the settings of a search with it."""
    translations = np.zeros([36, 0], np.int32) if translations is None else translations
    Shortlist(always, translations, 36).write(str(path), run.encoders)
    return f"shortlist={path}"


@pytest.mark.integration
def test_outputs_with_a_short_list_are_of_the_list(translation_run, tmp_path):
    translations = np.zeros([36, 3], np.int32)
    translations[3:33] = np.arange(3, 33)[:, None] % 24 + [4, 6, 9]
    shortlist = list_file(translation_run, tmp_path / "list", [20, 21, 22], translations)
    into = "target_language=en,extra_length=8"
    for search in ("beam_size=2", "beam_size=1"):
        found = []
        for engine in (CTRANSLATE2, "tensorflow"):
            hparams = DecodeHParams.of(translation_run.problem, f"{into},{search},{shortlist}")
            decoder = Decoder.from_run(translation_run, hparams=hparams, engine=engine)
            sources = [source for source in decoder.text.encode(LINES) if source.ids]
            found.append([decoder.decode([source])[0][0].ids for source in sources])
            for source, ids in zip(sources, found[-1], strict=True):
                assert {*ids} <= {1, 20, 21, 22, *translations[source.ids].ravel()}
    assert any(found[0])
    assert found[0] == found[1]  # greedily; of a line alone, the candidates are the same
    plain = DecodeHParams.of(translation_run.problem, f"{into},beam_size=1")
    decoder = Decoder.from_run(translation_run, hparams=plain, engine=CTRANSLATE2)
    assert found[0] != [decoder.decode([source])[0][0].ids for source in sources]


@pytest.mark.integration
def test_a_short_list_that_ctranslate2_would_misread_is_refused(
    run, plain_run, translation_run, tmp_path
):
    few = list_file(translation_run, tmp_path / "few", [3, 4, 5])
    hparams = DecodeHParams.of(translation_run.problem, f"target_language=en,beam_size=3,{few}")
    with pytest.raises(UsageError, match=r"few: it has 4 subwords for every source, .* needs 6"):
        Decoder.from_run(translation_run, hparams=hparams, engine=CTRANSLATE2)
    with pytest.raises(UsageError, match="not with --engine=ctranslate2 with a model that has sup"):
        decoders(run, list_file(run, tmp_path / "list", [3, 4, 6, 7]))
    shortlist = list_file(plain_run, tmp_path / "list", [3, 4, 6, 7])
    decoder = decoders(plain_run, f"beam_size=1,{shortlist}")[0]
    with pytest.raises(UsageError, match="where outputs begin with a given language or prefix"):
        decoder.decode(decoder.text.encode(["w1"]))


def test_a_source_of_eos_alone_has_an_empty_output(run):
    """With it, t2t-serve tries the model before it answers."""
    for beam_size in (1, 2):
        decoder = Decoder.from_run(
            run,
            hparams=DecodeHParams.of(run.problem, f"{SEARCH},beam_size={beam_size}"),
            engine=CTRANSLATE2,
        )
        [[best, *_]] = decoder.decode([Source("", [EOS_ID])])
        assert best.output.text == ""
