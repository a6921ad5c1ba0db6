"""The README.md of an export for CTranslate2: an example, and how its outputs compare to ours."""

import json
from collections.abc import Mapping, Sequence

from t2t_lite.decoding.ctranslate2_model import POSITIONS
from t2t_lite.interop.export.pieces import first_ids, sentencepiece_files, tokens_of
from t2t_lite.interop.export.search_settings import USUAL_LENGTH, average_exponent, not_carried
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.alignment.shortlist import VMAP
from t2t_lite.text.imported_encoder import ImportedEncoder
from t2t_lite.text.language_tokens import TEXT, LanguageTokens
from t2t_lite.text.text_encoder import SPACE, TextEncoder

_README = """\
# {problem}, for CTranslate2

Written by t2t-exporter: model {model}, hparams set {hparams_set}, after {step} updates, weights in
{quantization}. To use it in this folder, after `pip install {packages}`:

{example}
`translate_batch` takes many sentences at a time. An output ends after 256 subwords; set
`max_decoding_length` to change this. In t2t-decoder it may have {limit}.
Neither can be longer than {positions} subwords. `Translator(".", compute_type="int8")` computes in
8 bits, however the weights are stored.
{shortlist}{languages}
## The same outputs as t2t-decoder's

With `min_decoding_length=0`, greedy search (`beam_size=1`) finds the same outputs as t2t-decoder
with `beam_size=1`, and beam search with `length_penalty=0` the same as with `alpha=0`, except for
rounding. With `--decode_hparams=length_penalty=average,alpha=X` t2t-decoder scores outputs as
`length_penalty=X` does here. {stopping}
{left_out}{never}{penalty}"""

_LEFT_OUT = """
The example leaves out {settings}. The export was made with these settings, and t2t-decoder obeys
them.
"""

_STOPPING = {
    "t2t": """In all cases t2t-decoder searches a little further: CTranslate2 lets
an output end only if that is among its `beam_size` best steps, and stops once `beam_size` outputs
have ended; t2t-decoder considers twice as many steps, and continues until no better output is
possible.""",
    "marian": """CTranslate2 stops once `beam_size` outputs have ended; t2t-decoder, as
Marian, searches on with one hypothesis less for each of them.""",
}
_AS_TRANSFORMERS = """CTranslate2 stops once `beam_size` outputs have ended; t2t-decoder, as
transformers with `early_stopping` {stopping}, may stop at another step."""

_SHORTLIST = f"""
`{VMAP}` is the short list: with `use_vmap=True` outputs consist of its words alone; without, it has
no effect.
"""

_LANGUAGES = """
The model knows several languages. The first token of a source tells the language of {of}{prefix}.
The tokens: {tokens}.
"""
_PREFIX = """,
and `target_prefix` that of the translation"""
# Of a vocabulary whose tokens are ids.
_ALL_LANGUAGES = '{tokens}; `text["inputs"].languages` has all'

_NEVER = """
The model never outputs {tokens}. Here, others share the probability p of these tokens; in
t2t-decoder they do not. So the log-probability of each token is higher by -log(1 - p), and beams
may differ where p is large; greedy outputs do not.
"""

_AVERAGE = """
`--decode_hparams=length_penalty=average,alpha={alpha:g}` of t2t-decoder is `{nearest}` here.
"""

_T2T = """
T2T's own penalty differs: t2t-decoder divides the log-probability of an output of n subwords,
EOS counted, by ((5 + n) / 6)^alpha, CTranslate2 by n^length_penalty. For outputs of about n
subwords they rank alike if length_penalty = alpha n / (5 + n). For alpha={alpha:g}:

| n | length_penalty |
|---:|---:|
{penalties}
**`{nearest}` is closest** for sentences of usual length.
"""

_USE_PIECES = """\
    import ctranslate2, sentencepiece
    source, target = map(sentencepiece.SentencePieceProcessor, ["{source}", "{target}"])
    pieces = {start}source.encode("A sentence.", out_type=str)
    found = ctranslate2.Translator(".").translate_batch([pieces], {search})
    print(target.decode(found[0].hypotheses[0]{rest}){plain})
"""

_USE_WORDS = """\
    import ctranslate2
    pieces = {start}"A sentence .".split()
    found = ctranslate2.Translator(".").translate_batch([pieces], {search})
    print(" ".join(found[0].hypotheses[0]{rest}))
"""

# For vocabularies with no tokeniser except ours. CTranslate2's tokens are the ids.
_USE_IDS = """\
    import ctranslate2, t2t_lite.registry
    text = t2t_lite.registry.problem("{problem}").get_feature_encoders(".")
    ids = {start}[str(i) for i in text["inputs"].encode_text("A sentence.")]
    found = ctranslate2.Translator(".").translate_batch([ids], {search})
    print(text["targets"].decode([int(i) for i in found[0].hypotheses[0]]))
"""
_LENGTHS = (10, USUAL_LENGTH, 50, 100)
_MOST_TOKENS = 20  # that a list names


def readme(
    run: RunFolder,
    step: int,
    quantization: str,
    search: DecodeHParams,
    encoders: Mapping[str, TextEncoder],
    never_output: Sequence[int],
) -> str:
    """Returns the text that describes an export.

    Args:
        run: what was exported.
        step: of its checkpoint.
        quantization: of its weights.
        search: the settings to show.
        encoders: of "inputs" and "targets".
        never_output: ids.
    """
    tokens = tokens_of(encoders)
    is_average = search.length_penalty == "average"
    penalties = {n: average_exponent(search, n) for n in _LENGTHS}
    exponent = average_exponent(search)
    nearest = f"length_penalty={exponent:{'g' if is_average else '.2f'}}"
    left_out = [f"`{setting}`" for setting in not_carried(search, "shortlist")]
    hidden = [f"`{tokens.targets[id_] if tokens else id_}`" for id_ in never_output]
    return _README.format(
        problem=run.problem.name,
        model=run.model_name,
        hparams_set=run.hparams_set,
        step=step,
        quantization=quantization,
        packages="ctranslate2 sentencepiece" if tokens else "'.[ct2]'",
        example=_example(
            run,
            encoders,
            f"beam_size={search.beam_size}, {nearest}"
            + (", use_vmap=True" if search.shortlist else ""),
        ),
        shortlist=_SHORTLIST if search.shortlist else "",
        limit=_limit(search),
        positions=POSITIONS,
        stopping=_STOPPING.get(search.stopping, _AS_TRANSFORMERS).format(stopping=search.stopping),
        languages=_languages(encoders),
        left_out=_LEFT_OUT.format(settings=", ".join(left_out)) if left_out else "",
        never=_NEVER.format(tokens=_listed(hidden)) if hidden else "",
        penalty=(_AVERAGE if is_average else _T2T).format(
            alpha=search.alpha,
            penalties="".join(f"| {n} | {value:.2f} |\n" for n, value in penalties.items()),
            nearest=nearest,
        ),
    )


def _example(run: RunFolder, encoders: Mapping[str, TextEncoder], search: str) -> str:
    inputs = encoders["inputs"]
    has_pieces = tokens_of(encoders) is not None
    start, prefix = (
        [encoder.symbol(i) if has_pieces else str(i) for i in first_ids(encoder)]
        for encoder in (inputs, encoders["targets"])
    )
    known = {
        "start": f"{json.dumps(start)} + " if start else "",
        "search": f"{search}, target_prefix=[{json.dumps(prefix)}]" if prefix else search,
    }
    if not has_pieces:
        return _USE_IDS.format(problem=run.problem.name, **known)
    source, target = sentencepiece_files(run)
    is_imported = isinstance(inputs, ImportedEncoder)
    has_words = isinstance(inputs, ImportedEncoder) and not inputs.model
    return (_USE_WORDS if has_words else _USE_PIECES).format(
        source=source,
        target=target,
        rest="[1:]" if prefix else "",
        # The table may have pieces of which the SentencePiece model knows nothing.
        plain=f'.replace("{SPACE}", " ").strip()' if is_imported else "",
        **known,
    )


def _limit(search: DecodeHParams) -> str:
    """Returns how many subwords an output may have in t2t-decoder."""
    factor, extra = search.length_factor, search.extra_length
    if not factor:
        return f"{extra} subwords"
    if factor == 1:
        return f"{extra} more than its source"
    return f"{factor} times as many as its source" + (f" and {extra} more" if extra else "")


def _languages(encoders: Mapping[str, TextEncoder]) -> str:
    inputs = encoders["inputs"]
    if not isinstance(inputs, LanguageTokens) or not inputs.languages:
        return ""
    if tokens_of(encoders):
        tokens = _listed([f"`{inputs.symbol(id_)}`" for id_ in inputs.languages.values()])
    else:
        ids = _listed([f"`{id_}` ({code})" for code, id_ in inputs.languages.items()])
        tokens = _ALL_LANGUAGES.format(tokens=ids)
    return _LANGUAGES.format(
        of="its text" if inputs.language_of == TEXT else "the translation",
        prefix=_PREFIX if first_ids(encoders["targets"]) else "",
        tokens=tokens,
    )


def _listed(tokens: Sequence[str]) -> str:
    named = ", ".join(tokens[:_MOST_TOKENS])
    left = len(tokens) - _MOST_TOKENS
    return f"{named} and {left} more" if left > 0 else named
