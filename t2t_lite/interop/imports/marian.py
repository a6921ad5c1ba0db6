"""Reads Marian's Transformers: a model with its settings inside, in NumPy's format or binary."""

import logging
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from t2t_lite.errors import DataError, UserError
from t2t_lite.interop.imports import safe_files
from t2t_lite.interop.imports.marian_binary import is_binary, read_binary
from t2t_lite.interop.imports.marian_decoder import (
    BERGAMOTS,
    FILE,
    MARIANS,
    OPUS,
    Decoder,
    decode_hparams,
    read_decoder,
)
from t2t_lite.interop.imports.marian_settings import (
    find_hparams,
    read_settings,
    sizes_of_vocabularies,
)
from t2t_lite.interop.imports.marian_shortlist import is_shortlist, read_shortlist
from t2t_lite.interop.imports.open_model import (
    NO_ID,
    OpenModel,
    Side,
    Vocabulary,
    language_labels,
    pieces_by_id,
    spm_pieces,
)
from t2t_lite.interop.imports.safe_files import Tensor
from t2t_lite.interop.imports.weights import check, in_order, require_floats
from t2t_lite.interop.layouts.marian import (
    SETTINGS,
    UNTRANSPOSED,
    Embeddings,
    MarianNames,
    never_output,
)
from t2t_lite.interop.layouts.marian_binary import INPUT_MULTIPLIER, is_matrix
from t2t_lite.interop.layouts.parts import Part, embedding_parts, transformer_parts
from t2t_lite.text.alignment.shortlist import Shortlist
from t2t_lite.text.language_tokens import TRANSLATION
from t2t_lite.text.text_encoder import SPACE

log = logging.getLogger(__name__)

_REQUIRED = ("</s>", "<unk>")
# Nematus's names of these, which Marian accepts.
_NEMATUS = ("eos", "UNK")
# How the names of files for older models end: codes of subword-nmt, and truecasers.
_SPLITTERS = (".bpe", ".tcmodel")

_NPZ, _BINARY = ".npz", ".bin"
_COMPRESSED = (".gz", ".zst", ".xz")  # Bergamot's students are published so


def is_marian(path: pathlib.Path) -> bool:
    """Whether a path is a model of Marian's, or a folder with one."""
    return _is_model(path) if path.is_file() else bool(_models(path) or _compressed(path))


def read(model_dir: pathlib.Path, checkpoint_path: str = "") -> OpenModel:
    """Reads a model in the form in which Marian writes it, or OPUS-MT publishes it.

    Args:
        model_dir: the folder, or the model in it.
        checkpoint_path: the model, if the folder has several: its name there, or its path.

    Raises:
        UserError: something is missing or damaged, or has no counterpart here.
    """
    folder = model_dir if model_dir.is_dir() else model_dir.parent
    path = folder / checkpoint_path if checkpoint_path else _model_file(model_dir)
    if checkpoint_path and not path.is_file():  # then it is a path from here
        path = pathlib.Path(checkpoint_path)
    if not path.is_file():
        raise UserError(f"{path}: no such file; correct --model_dir or --checkpoint_path")
    if path.suffix == _BINARY:
        tensors, is_8_bits = read_binary(path)
    else:
        tensors, is_8_bits = safe_files.read_npz(path), False
    decoder = read_decoder(path, folder)
    _check_files(folder)
    settings = read_settings(path, tensors)
    source, target = _sides(decoder, sizes_of_vocabularies(settings))
    hparams = find_hparams(settings, _never_output(target.vocabulary, decoder), path)
    embeddings = _embeddings(settings, tensors)
    sizes = (len(source.order), len(target.order))
    ours = {
        name: _in_our_form(name, tensor)
        for name, tensor in tensors.items()
        if name != SETTINGS and not name.endswith(INPUT_MULTIPLIER)
    }
    require_floats(ours, str(path))
    if embeddings[0] == embeddings[1] and source.order != target.order:
        raise DataError(f"{path}: {embeddings[0]} is of both sides, but their vocabularies differ")
    if UNTRANSPOSED in ours:
        ours[UNTRANSPOSED] = ours[UNTRANSPOSED].transposed()
    orders = dict.fromkeys(embeddings[1:], target.order) | {embeddings[0]: source.order}
    for name, order in orders.items():
        if name in ours:
            ours[name] = in_order(ours[name], order, f"{path}: {name}")

    def parts() -> Iterator[Part]:
        yield from embedding_parts(hparams, sizes, *embeddings)
        yield from transformer_parts(hparams, MarianNames())

    check(parts(), ours, str(path))
    usual = BERGAMOTS if path.suffix == _BINARY else OPUS
    return OpenModel(
        str(path),
        hparams,
        source.vocabulary,
        target.vocabulary,
        list(parts()),
        ours,
        decode_hparams(decoder, MARIANS if decoder.is_published else usual),
        is_8_bits,
        _shortlist(decoder, source, target),
    )


# ---- files


def _models(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the models in a folder: of several forms, those of the most exact one."""
    files = [path for path in sorted(folder.glob("*")) if _is_model(path)]
    exact = [path for path in files if path.suffix == _NPZ]
    if not exact and len(files) > 1:
        exact = [path for path in files if not read_binary(path)[1]]
    return exact or files


def _compressed(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files in a folder that may be compressed models."""
    return [
        path
        for path in sorted(folder.glob("model*"))
        if path.suffix in _COMPRESSED and path.stem.endswith((_NPZ, _BINARY))
    ]


def _is_model(path: pathlib.Path) -> bool:
    """Whether a file is a model, and not the state of an optimizer, or of another toolkit."""
    if path.suffix == _BINARY:
        return path.is_file() and is_binary(path)
    return path.suffix == _NPZ and not path.name.endswith(".optimizer.npz")


def _model_file(model_dir: pathlib.Path) -> pathlib.Path:
    """Returns the model in a folder: the one that decoder.yml names, or the only one."""
    if model_dir.is_file():
        return model_dir
    found, file = _models(model_dir), model_dir / FILE
    if not found and (compressed := _compressed(model_dir)):
        raise UserError(
            f"{compressed[0]} is compressed: unpack the files of {model_dir} (gunzip, unzstd, unxz)"
        )
    settings = safe_files.read_yaml(file) if file.is_file() else {}
    settings = settings if isinstance(settings, dict) else {}
    named = Decoder(file, model_dir, settings, True).files("models")
    if len(named) > 1:
        raise UserError(
            f"{file} names {len(named)} models, whose mean Marian decodes with: that has no "
            "counterpart here; name one with --checkpoint_path"
        )
    if named and named[0].is_file():
        return named[0]
    if len(found) != 1:
        names = ", ".join(path.name for path in found)
        missing = f", but not {named[0].name}, which {FILE} names" if named else ""
        raise UserError(
            f"{model_dir} has {len(found)} models ({names}){missing}: name one with "
            "--checkpoint_path"
            if found
            else f"{model_dir} has no model of Marian's (.npz or .bin): correct --model_dir"
        )
    if named:
        log.warning(
            "%s names the model %s, which is missing: %s is read, the only model in the folder",
            *(file, named[0].name, found[0].name),
        )
    return found[0]


def _check_files(folder: pathlib.Path) -> None:
    """Refuses a folder with a file that prepares text; Marian itself reads no file unasked."""
    for path in sorted(folder.iterdir()):
        if path.name.endswith(_SPLITTERS):
            raise UserError(
                f"{path} splits words into subwords or changes their case, which has no "
                "counterpart here: move it away if your texts come split already"
            )


def _shortlist(decoder: Decoder, source: Side, target: Side) -> Shortlist | None:
    """Returns the short list that the settings name, or the only one beside them, by our ids.

    Raises:
        UserError: the list that they name is missing, or not in binary form.
    """
    found = decoder.files("shortlist")
    if found and not (found[0].is_file() and is_shortlist(found[0])):
        wrong = "not a short list in binary form" if found[0].is_file() else "missing"
        raise UserError(
            f"{decoder.file}: shortlist names {found[0].name}, which is {wrong} in "
            f"{decoder.folder}: copy the list there, or remove the key, and make a list with "
            "t2t-shortlist"
        )
    if not found:
        files = sorted(decoder.folder.glob(f"*{_BINARY}"))
        found = [path for path in files if path.is_file() and is_shortlist(path)]
    return read_shortlist(found[0], source.order, target.order) if len(found) == 1 else None


# ---- vocabularies


def _sides(decoder: Decoder, sizes: tuple[int, int]) -> tuple[Side, Side]:
    """Returns the vocabularies of source and target; `sizes`: what the model has of each."""
    paths = decoder.files("vocabs")
    if len(paths) > 2:
        raise UserError(
            f"{decoder.file}: vocabs names {len(paths)} vocabularies: expected that of the source, "
            "then that of the target; models with several sources have no counterpart here"
        )
    if not paths:
        paths = [
            path
            for pattern in ("*vocab*.yml", "*vocab*.yaml", "*vocab*.json", "*vocab*.spm")
            for path in sorted(decoder.folder.glob(pattern))
        ]
        # Bergamot's names of the files of two vocabularies: in this order.
        is_pair = [path.name.partition(".")[0] for path in paths] == ["srcvocab", "trgvocab"]
        if len(paths) != 1 and not is_pair:
            listed = ", ".join(path.name for path in paths) or "expected *vocab*.yml or .spm"
            raise UserError(
                f"{decoder.folder} has {len(paths)} vocabularies ({listed}): name that of the "
                f"source, then that of the target under vocabs: in {decoder.file}"
            )
    return _side(paths[0], "source", sizes[0]), _side(paths[-1], "target", sizes[1])


def _side(path: pathlib.Path, side: str, size: int) -> Side:
    """Reads the vocabulary of a side; .spm holds all, others need `source.spm` for text."""
    if not path.is_file():
        raise UserError(f"{path}, the vocabulary of the {side}, is missing: copy it there")
    model = b""
    if path.suffix == ".spm":
        model = path.read_bytes()
        pieces = spm_pieces(path, model)
    elif path.suffix in (".yml", ".yaml", ".json"):
        pieces = _learned(pieces_by_id(path), size, path)
        spm = path.with_name(f"{side}.spm")
        if spm.is_file():
            model = spm.read_bytes()
            spm_pieces(spm, model)
        elif any(path.with_name(f"{other}.spm").is_file() for other in ("source", "target")):
            raise UserError(f"{spm} is missing, which splits the text of the {side}: copy it there")
        elif any(SPACE in piece for piece in pieces):
            log.warning(
                "%s has pieces of SentencePiece, but there is no %s.spm beside it: texts must be "
                "split into pieces already",
                path,
                side,
            )
    else:
        raise UserError(
            f"{path}: expected a vocabulary in .yml, .json or .spm; factored ones (.fsv) have no "
            "counterpart here"
        )
    eos, unknown = (
        _required(pieces, *names, path) for names in zip(_REQUIRED, _NEMATUS, strict=True)
    )
    # The model of an .spm splits labels as text, and so does Marian; a table has them in its place.
    languages = {} if path.suffix == ".spm" else language_labels(pieces)
    return Side.of(
        pieces,
        NO_ID,
        eos,
        unknown,
        model,
        special=languages.values(),
        languages=languages if side == "source" else {},
        language_of=TRANSLATION,
        origin=str(path),
    )


def _learned(pieces: list[str], size: int, path: pathlib.Path) -> list[str]:
    """Returns the first pieces of a table, which a model has learned; `size`: so many, 0: all."""
    if not 0 < size < len(pieces):
        return pieces
    log.warning(
        "%s has %d pieces, and the model the first %d: the others are unknown to it, as in Marian",
        *(path, len(pieces), size),
    )
    return pieces[:size]


def _never_output(vocabulary: Vocabulary, decoder: Decoder) -> list[int]:
    """Returns the ids that Marian's decoder does not output unless it is told to."""
    return never_output(
        vocabulary.pieces,
        vocabulary.unknown,
        allows_unknown=decoder.is_on("allow-unk"),
        allows_special=decoder.is_on("allow-special"),
    )


def _required(pieces: Sequence[str], name: str, old: str, path: pathlib.Path) -> int:
    """Returns the id of a piece that every vocabulary has, by one of its two names."""
    found = next((piece for piece in (name, old) if piece in pieces), None)
    if found is None:
        raise DataError(f"{path} has no piece {name}: expected a vocabulary of Marian's")
    return pieces.index(found)


# ---- tensors


def _embeddings(settings: Mapping[str, str], tensors: Mapping[str, Tensor]) -> Embeddings:
    """Returns the names of the matrices of source, target and softmax, and of the bias."""
    own, both, every = (
        settings.get(f"tied-embeddings{which}") == "true" for which in ("", "-src", "-all")
    )
    return Embeddings.of(
        both=both or every, softmax=own or every, is_untransposed=UNTRANSPOSED in tensors
    )


def _in_our_form(name: str, tensor: Tensor) -> Tensor:
    """Returns a tensor of Marian's, whose vectors are [1, N], in our form."""
    is_vector = len(tensor.shape) == 2 and tensor.shape[0] == 1 and not is_matrix(name)
    return tensor.reshaped(tensor.shape[1]) if is_vector else tensor
