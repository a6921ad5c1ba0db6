"""A student's weights and vocabularies in the form of Bergamot's engine.

The engine runs one kind of Transformer; whatever differs is refused by name.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t2t_lite.errors import UserError
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.interop.layouts.marian import (
    RECURRENT,
    SETTINGS,
    SIZES,
    TIES,
    Embeddings,
    MarianNames,
    marian_shape,
    never_output,
    settings_array,
)
from t2t_lite.interop.layouts.parts import Part, embedding_parts, transformer_parts, values_of
from t2t_lite.layers.dense import EXCLUDED
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.models.transformer import Transformer
from t2t_lite.text.alignment.shortlist import Shortlist
from t2t_lite.text.imported_encoder import ImportedEncoder
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.sentencepiece_model import Piece, PieceKind, pieces_of, type_of, with_more_pieces
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID, TextEncoder, VocabType

# The engine's only architecture, by our hyperparameters.
_REQUIRED = {
    "decoder_self": "ssru",
    "layer_preprocess_sequence": "none",
    "layer_postprocess_sequence": "dan",
    "final_sequence": "none",
    "ffn_layer": "dense_relu_dense",
    "ffn_activation": "relu",
    "self_attention_type": "dot_product",
    "attention_neighborhood": 0,
    "attention_key_channels": 0,
    "attention_value_channels": 0,
    "pos": "timing",
    "position_offset": 0,
    "multiply_embedding_mode": "sqrt_depth",
    "use_target_space_embedding": False,
    "start_id": 0,
    "end_ids": "",
    "prepend_mode": "none",
    "norm_epsilon": 1e-6,
}
_INNER, _ROWS = 64, 8  # what sizes of its products are multiples of
# What Marian writes into models of this kind, besides sizes.
_SETTINGS = {
    **RECURRENT,
    "dec-cell-base-depth": "2",
    "dec-cell-high-depth": "1",
    "dim-rnn": "1024",
    "enc-cell": "gru",
    "enc-cell-depth": "1",
    "enc-type": "bidirectional",
    "factors-combine": "sum",
    "factors-dim-emb": "0",
    "input-types": "\n  []",
    "lemma-dim-emb": "0",
    "right-left": "false",
    "skip": "false",
    "transformer-aan-activation": "swish",
    "transformer-aan-depth": "2",
    "transformer-aan-nogate": "false",
    "transformer-decoder-autoreg": "rnn",
    "transformer-dim-aan": "2048",
    "transformer-ffn-activation": "relu",
    "transformer-ffn-depth": "2",
    "transformer-guided-alignment-layer": "last",
    "transformer-no-projection": "false",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": '""',
    "transformer-preprocess": '""',
    "transformer-tied-layers": "\n  []",
    "transformer-train-position-embeddings": "false",
    "type": "transformer",
    "ulr": "false",
    "ulr-dim-emb": "0",
    "ulr-trainable-transformation": "false",
    "version": "v1.9.56",
}


class Side(NamedTuple):
    """The vocabulary of one side.

    Attributes:
        spm: the SentencePiece model.
        ids: our id of each of its pieces; `_NO_ID`: one that only fills the vocabulary up.
        unwritten: our ids that Marian never outputs, and no trained student: what is unknown, and
            control characters.
    """

    spm: bytes
    ids: Sequence[int]
    unwritten: frozenset[int] = frozenset()


_NO_ID = -1


def require_runnable(model: Seq2Seq) -> TransformerHParams:
    """Returns the hyperparameters of a model that the engine runs.

    Raises:
        UserError: it does not; the message names the hyperparameter.
    """
    h = model.hparams
    if type(model) is not Transformer or not isinstance(h, TransformerHParams):
        raise UserError(f"model {type(model).__name__}: Bergamot's engine runs only Transformers")
    if not model.has_inputs:
        raise UserError("a language model: Bergamot's engine runs only models with a source")
    for name, value in _REQUIRED.items():
        own = getattr(h, name)
        if own != value and not (name == "layer_postprocess_sequence" and own == "an"):
            hparam = "layer_final_sequence" if name == "final_sequence" else name
            raise UserError(
                f"hparam {hparam}={own}: Bergamot's engine runs only {hparam}={value or 0}; train "
                "a student for it with --hparams_set=transformer_student_tiny_ssru"
            )
    if model.softmax_embedding is not model.targets_embedding:
        raise UserError(
            "the softmax of this model has a matrix of its own, where Bergamot's engine takes the "
            "embeddings of the target: train a student with "
            "--hparams=shared_target_and_softmax_weights=true"
        )
    for name in ("hidden_size", "filter_size"):
        if getattr(h, name) % _INNER:
            raise UserError(
                f"hparam {name}={getattr(h, name)}: Bergamot's engine needs a multiple of {_INNER}"
            )
    return h


def side_of(encoder: TextEncoder) -> Side:
    """Returns the vocabulary of an encoder, filled up to a multiple of 8 pieces.

    Raises:
        UserError: Bergamot's engine cannot read the vocabulary.
    """
    if (
        not isinstance(encoder, SentencePieceEncoder | ImportedEncoder)
        or not encoder.model
        or type_of(encoder.model) != VocabType.SENTENCEPIECE_UNIGRAM
    ):
        raise UserError(
            "Bergamot's engine splits text by a unigram model of SentencePiece alone: train on a "
            "problem with VocabType.SENTENCEPIECE_UNIGRAM, such as text2text_tmpdir_unigram"
        )
    if encoder.languages:
        raise UserError(
            "sources begin with the token of a language, which Bergamot's engine does not put "
            "there: train a student for one pair of languages"
        )
    spm = encoder.model
    own = pieces_of(spm)
    if isinstance(encoder, ImportedEncoder):
        order = {piece: id_ for id_, piece in enumerate(encoder.tokens)}
        others = {*encoder.tokens[EOS_ID:]} != {piece.text for piece in own}
        if others or not encoder.is_whole:
            raise UserError(
                "the imported vocabulary has pieces or rules besides those of its SentencePiece "
                "model, which is all that Bergamot's engine reads"
            )
        ids = [order[piece.text] for piece in own]
    else:
        ids = [*range(len(own))]
    unwritten = never_output(
        [piece.text for piece in own],
        ids.index(encoder.unknown_id),
        allows_unknown=False,
        allows_special=False,
    )
    missing = -len(ids) % _ROWS
    names = map("<unused{}>".format, itertools.count())
    free = itertools.filterfalse({piece.text for piece in own}.__contains__, names)
    fillers = [Piece(name, 0.0, PieceKind.UNUSED) for name in itertools.islice(free, missing)]
    longer = with_more_pieces(spm, fillers) if missing else spm
    return Side(longer, [*ids, *[_NO_ID] * missing], frozenset(ids[number] for number in unwritten))


def parts_of(model: Seq2Seq, h: TransformerHParams) -> list[Part]:
    """Returns the variables of a model by Marian's names, with biases that it may lack."""
    whole = h.copy(attention_bias=True, softmax_bias=True)
    sizes = (model.inputs_vocab_size, model.targets_vocab_size)
    names = _embeddings(model)
    return [*embedding_parts(whole, sizes, *names), *transformer_parts(whole, MarianNames())]


def _embeddings(model: Seq2Seq) -> Embeddings:
    both = model.inputs_embedding is model.targets_embedding
    return Embeddings.of(both=both, softmax=True)


def arrays_of(
    model: Seq2Seq, parts: Sequence[Part], sides: Sequence[Side]
) -> dict[str, np.ndarray]:
    """Returns the weights in the engine's order of ids, and the settings."""
    h, names = model.hparams, _embeddings(model)
    assert isinstance(h, TransformerHParams)
    arrays = dict(values_of(model, parts))
    rows = dict.fromkeys(names[1:], sides[1].ids) | {names.source: sides[0].ids}
    for name, ids in rows.items():
        order = np.asarray(ids)
        arrays[name] = arrays[name][order]
        arrays[name][order == _NO_ID] = 0
    never = {_NO_ID, *h.never_output} - sides[1].unwritten
    never |= set() if h.softmax_padding else {PAD_ID}
    arrays[names.bias][np.isin(sides[1].ids, [*never])] = EXCLUDED
    settings = _SETTINGS | {name: str(getattr(h, own)) for name, own in SIZES.items()}
    settings |= dict.fromkeys(TIES, "false")
    settings["tied-embeddings-all" if names.source == names.target else "tied-embeddings"] = "true"
    settings |= {"enc-depth": str(h.encoder_layers), "dec-depth": str(h.decoder_layers)}
    settings["dim-vocabs"] = "".join(f"\n  - {len(side.ids)}" for side in sides)
    shaped = {name: values.reshape(marian_shape(values.shape)) for name, values in arrays.items()}
    return shaped | {SETTINGS: settings_array(dict(sorted(settings.items())))}


class EngineList(NamedTuple):
    """A short list by the engine's ids."""

    lists: Sequence[Sequence[int]]  # for each source id
    first: int  # so many of the first target ids are candidates of every source


def engine_list(shortlist: Shortlist, source: Side, target: Side) -> EngineList:
    """Returns a short list by the engine's ids.

    In its form, only the first ids can be candidates of every source. If others are, they become
    candidates of EOS, with which every source ends. Marian wants a candidate of the last id.
    """
    place = {id_: number for number, id_ in enumerate(target.ids)}
    always, ours = shortlist.lists()
    lists = [
        sorted(place[candidate] for candidate in ours[id_] if candidate in place)
        if id_ != _NO_ID
        else []
        for id_ in source.ids
    ]
    of_all = {place[id_] for id_ in always if id_ in place}
    first = len(of_all) if of_all == {*range(len(of_all))} else 0
    if not first:
        end = source.ids.index(EOS_ID)
        lists[end] = sorted({*lists[end], *of_all})
    lists[-1] = lists[-1] or [place[EOS_ID]]
    return EngineList(lists, first)
