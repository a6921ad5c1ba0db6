"""Exports SavedModels with the search: `translate` from text to text, `ids` from ids to ids.

Both need only TensorFlow; for a SentencePiece vocabulary, `translate` also needs
`import tensorflow_text` before loading. Outputs equal those of `t2t-decoder --long_input=truncate`.
"""

import itertools
import logging
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from t2t_lite import files, search
from t2t_lite.data.number_ids import numbers_of_ids
from t2t_lite.decoding.decoder import BATCH_CELLS, LEAST_LENGTH
from t2t_lite.errors import UsageError, UserError
from t2t_lite.interop.export.exported import Exported
from t2t_lite.interop.export.folder import new_folders
from t2t_lite.interop.export.graph_text import (
    GraphTokenizer,
    graph_tokenizer,
    one_line,
    source_text,
)
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.factory import make_search
from t2t_lite.search.number_search import NumberSearch
from t2t_lite.search.parts import SearchPart
from t2t_lite.search.search_loop import Hypotheses, SearchLoop
from t2t_lite.text.imported_encoder import ImportedEncoder
from t2t_lite.text.languages import speaking
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID

log = logging.getLogger(__name__)

TRANSLATE, IDS = "translate", "ids"

_PYTHON = ("PyFunc", "PyFuncStateless", "EagerPyFunc")  # operations that call this process

_README = """\
# {problem} for TensorFlow and TensorFlow Serving: `{kind}`

{origin}
Search: {search}.

```python
import tensorflow as tf{imports}
model = tf.saved_model.load("{path}").signatures["serving_default"]
print(model(inputs=tf.constant({example}))["outputs"].numpy())
```

{details}{numbers}
Besides `outputs` there are `scores`; with return_beams=True both have beam_size columns, best first
(an empty output with a score of -1e7 means that no more were found). An empty output with a score
of NaN is an error, not a translation: the model output NaN instead of probabilities. A call takes
any number of sources, in bounded memory, and uses {limit} of each.
"""
_IMPORT_TEXT = "\nimport tensorflow_text  # provides the operations of SentencePiece"
_DETAILS = {
    TRANSLATE: {
        "example": '["A line of text."]',
        "details": "Text is UTF-8, one line each: a line break within it is white space. White "
        "space around a line is dropped; an empty line has an empty output.",
    },
    IDS: {
        "example": "[[5, 6, 7, 1]]",
        "details": "Ids are those of the vocabulary beside this file: 1 ends a source, 0 is "
        "padding before or after it.\nOutputs have no final 1; a row of zeros has an empty output.",
    },
}
_NUMBERS = "\n`numbers` are the numbers of each text, of which `outputs` are the bits.\n"
_PROMPT_DETAILS = {
    TRANSLATE: {
        "example": '["How a text begins"]',
        "details": "Text is UTF-8: a prompt, perhaps empty. White space around it is dropped. "
        "Outputs are what follows it.",
    },
    IDS: {
        "example": "[[5, 6, 7]]",
        "details": "Ids are those of the vocabulary beside this file: a prompt, 0 is padding "
        "before or after it.\nOutputs are what follows it, without the final 1; a row of zeros is "
        "an empty prompt.",
    },
}


class IdsModule(tf.Module):
    """Maps source ids to target ids, as one graph; a language model's prompts to what follows.

    Args:
        model: a trained model.
        search: the search for its outputs.
        hparams: the settings of the search and its batches.
        start: the ids with which every output begins, unseen, such as that of its language.
    """

    def __init__(
        self,
        model: Seq2Seq,
        search: SearchLoop | NumberSearch,
        hparams: DecodeHParams,
        start: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self._start = list(start)
        self.has_inputs = model.takes_inputs
        self._search = search
        self._hparams = hparams
        self.max_input_size = max_input_size(model, hparams)
        # A SavedModel stores what it finds in its module's attributes.
        self._weights = [weight.value for weight in model.weights]
        self._resources = _resources(search)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, "inputs")], autograph=False)
    def __call__(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Searches for the outputs of any number of sentences.

        Args:
            inputs: [N, S] ids, EOS included, and 0 anywhere, which is dropped; a row of zeros has
                an empty output. For a language model prompts without EOS, and a row of zeros is an
                empty prompt.

        Returns:
            `outputs` [N, T], ids without EOS, 0 after them, and `scores` [N]; with return_beams
            [N, K, T] and [N, K], best first. Of regression also `numbers` [N, T], which `outputs`
            are the ids of; NaN where there is no text.
        """
        inputs = _truncated(_padded_at_end(inputs), self.max_input_size)
        ids, scores = self._in_batches(inputs)
        ids = _trimmed(tf.where(ids == EOS_ID, PAD_ID, ids))
        if not self._hparams.return_beams:
            ids, scores = ids[:, 0], scores[:, 0]
        found = {"outputs": ids, "scores": scores}
        if isinstance(self._search, NumberSearch):
            found["numbers"] = numbers_of_ids(ids)
        return found

    def _in_batches(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns ids [N, K, T] and scores [N, K], in bounded memory for any number of rows.

        As in the decoder, sentences of similar length are batched, the longest first; empty ones
        come last and do not reach the model.
        """
        lengths = tf.math.count_nonzero(inputs, axis=1, dtype=tf.int32)  # [N]
        if not self.has_inputs:
            lengths += 1  # as in the decoder
        order = tf.argsort(lengths, direction="DESCENDING", stable=True)
        count = tf.math.count_nonzero(lengths, dtype=tf.int32)
        room = tf.reduce_max(self._limits(tf.pad(lengths, [[0, 1]])))  # T
        shape = [tf.size(lengths), self._hparams.beam_size]

        def body(
            start: tf.Tensor, ids: tf.Tensor, scores: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            longest = lengths[order[start]]
            end = tf.minimum(start + self._batch_size(longest), count)
            rows = order[start:end]  # [B]
            limits = self._limits(tf.gather(lengths, rows))
            found = self._found(tf.gather(inputs, rows)[:, :longest], limits)
            missing = room - tf.shape(found.ids)[2]
            padded = tf.pad(found.ids, [[0, 0], [0, 0], [0, missing]])  # [B, K, T]
            ids = tf.tensor_scatter_nd_update(ids, rows[:, None], padded)
            return end, ids, tf.tensor_scatter_nd_update(scores, rows[:, None], found.scores)

        start = (tf.constant(0), tf.zeros([*shape, room], tf.int32), tf.zeros(shape))
        _, ids, scores = tf.while_loop(lambda start, *_: start < count, body, start)
        return ids, scores

    def _limits(self, lengths: tf.Tensor) -> tf.Tensor:
        """Returns the maximum lengths of outputs [N], which have room for EOS, as in the decoder.

        Args:
            lengths: [N], of the sources; of the prompts with EOS.
        """
        least = len(self._start) + 1 if self.has_inputs else lengths
        return tf.maximum(self._hparams.output_limit(lengths), least)

    def _found(self, inputs: tf.Tensor, limits: tf.Tensor) -> Hypotheses:
        """Searches for the outputs of one batch [B, S], without their prompt or start."""
        prefixes = inputs
        if self.has_inputs:
            if not self._start:
                return self._search.in_graph(inputs, limits)
            prefixes = tf.tile([self._start], [tf.shape(inputs)[0], 1])  # [B, P]
        sizes = tf.math.count_nonzero(prefixes, axis=1, dtype=tf.int32)  # [B]
        sources = inputs if self.has_inputs else inputs[:, :0]
        ids, scores = self._search.in_graph(sources, limits, prefixes, sizes)
        length = tf.shape(ids)[2]
        positions = sizes[:, None] + tf.range(length)  # [B, T]
        longer = tf.pad(ids, [[0, 0], [0, 0], [0, length]])
        return Hypotheses(tf.gather(longer, positions, axis=2, batch_dims=1), scores)

    def _batch_size(self, longest: tf.Tensor) -> tf.Tensor:
        h = self._hparams
        budget = BATCH_CELLS // (tf.maximum(longest, LEAST_LENGTH) * h.beam_size)
        return tf.constant(h.batch_size) if h.batch_size else tf.maximum(budget, 1)


class TranslateModule(tf.Module):
    """Maps text to text, as one graph.

    Args:
        ids: the search.
        inputs: the sources' vocabulary.
        targets: the targets' vocabulary.
        in_source_form: whether sources are normalised; see `graph_text.source_text`.
    """

    def __init__(
        self,
        ids: IdsModule,
        inputs: GraphTokenizer,
        targets: GraphTokenizer,
        in_source_form: bool = False,
    ) -> None:
        super().__init__()
        self._in_source_form = in_source_form
        self._ids = ids
        self._inputs = inputs
        self._targets = targets

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "inputs")], autograph=False)
    def __call__(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translates any number of lines.

        Args:
            inputs: [N], UTF-8; invalid bytes become U+FFFD.

        Returns:
            `outputs` [N] and `scores` [N], "" and 0 for a line without text (for a language model
            that is an empty prompt); with return_beams [N, K], best first.
        """
        # [N, (S)]
        ids = self._inputs.tokenize(source_text(inputs, self._in_source_form))
        if self._ids.max_input_size:  # so that one long line does not lengthen all rows
            ids = ids[:, : self._ids.max_input_size]
        found = self._ids((_with_eos(ids) if self._ids.has_inputs else ids).to_tensor())
        outputs, scores = found["outputs"], found["scores"]
        rows = tf.reshape(outputs, [tf.size(scores), tf.shape(outputs)[-1]])  # [N * K, T]
        is_text = (rows != PAD_ID) & (rows != EOS_ID)
        texts = self._targets.detokenize(tf.ragged.boolean_mask(rows, is_text))
        return {"outputs": tf.reshape(one_line(texts), tf.shape(scores)), "scores": scores}


def export(run: RunFolder, checkpoint: str | None, export_dir: str, hparams: DecodeHParams) -> None:
    """Writes `export_dir/ids/VERSION` and, if a graph can convert the text, `translate/VERSION`.

    Args:
        run: an opened run folder.
        checkpoint: prefix of a checkpoint; None: the newest.
        export_dir: the parent of all exports.
        hparams: search settings.

    Raises:
        UsageError: the search cannot be exported.
        UserError: TensorFlow could not load a model from `export_dir`.
        DataError: the model knows several languages, and none was chosen.
    """
    if hparams.sampling_method == "random":
        raise UsageError(
            "decode hparam sampling_method=random: an exported search would draw the same samples "
            "in every call; leave it out"
        )
    if hparams.replace_unk:
        raise UsageError(
            "decode hparam replace_unk: an exported search returns no attention; leave it out"
        )
    if files.is_misread(export_dir):
        raise UserError(
            f"TensorFlow could not load a SavedModel from {export_dir}: it reads [ and \\ in the "
            "name of a folder as a pattern; choose another --export_dir"
        )
    if hparams.xla_compile:
        raise UsageError(
            "decode hparam xla_compile: an exported search is one graph for sources of all sizes, "
            "which XLA cannot compile; leave it out"
        )
    exported = Exported.load(run, checkpoint, hparams.dtype)
    model = exported.model
    modules = _modules(run, model, hparams)
    if hparams.search:
        _require_graph(modules[IDS], hparams)
    limit = max_input_size(model, hparams)
    with new_folders(export_dir, list(modules)) as folders:
        for kind, module in modules.items():
            folder = folders[kind]
            with files.errors_of(folder, (tf.errors.OpError,)):
                tf.saved_model.save(module, str(folder), signatures=module.__call__)
            usage = _README.format(
                problem=run.problem.name,
                kind=kind,
                origin=exported.origin,
                search=", ".join(f"{name}={value}" for name, value in hparams.to_dict().items()),
                path=f"{kind}/{folder.name.removesuffix(files.INCOMPLETE)}",
                imports=_IMPORT_TEXT if kind == TRANSLATE and needs_tensorflow_text(run) else "",
                numbers=_NUMBERS if kind == IDS and run.problem.has_numbers else "",
                limit=f"the first {limit} subwords" if limit else "all subwords",
                **(_DETAILS if model.takes_inputs else _PROMPT_DETAILS)[kind],
            )
            exported.write_card(folder, "tensorflow", usage)
            exported.copy_vocabulary(folder)
    log.info("wrote %s", " and ".join(f"{export_dir}/{kind}" for kind in modules))


def _modules(run: RunFolder, model: Seq2Seq, hparams: DecodeHParams) -> dict[str, tf.Module]:
    """Returns the modules to export, by kind."""
    encoders = speaking(run.encoders, hparams.languages)
    start = encoders["targets"].start_ids()
    ids = IdsModule(model, make_search(model, encoders, hparams), hparams, start)
    read = "inputs" if model.takes_inputs else "targets"  # a language model reads prompts
    inputs, targets = (graph_tokenizer(encoders[name]) for name in (read, "targets"))
    if inputs and targets and run.problem.is_plain_text:
        in_form = model.takes_inputs and encoders["inputs"].reads_source_form
        return {IDS: ids, TRANSLATE: TranslateModule(ids, inputs, targets, in_form)}
    log.warning(
        "%s: TensorFlow has no operations for the text of this problem; exporting only %r, from "
        "ids to ids",
        run.problem.name,
        IDS,
    )
    return {IDS: ids}


def max_input_size(model: Seq2Seq, hparams: DecodeHParams) -> int:
    """Returns the number of ids of a source that the model reads; 0: all, as of a prompt."""
    if not model.takes_inputs:
        return 0
    return hparams.source_limit([model.hparams.max_length])


def needs_tensorflow_text(run: RunFolder) -> bool:
    """Whether the text of a run's problem needs operations that only tensorflow_text has."""
    return any(
        isinstance(encoder, SentencePieceEncoder)
        or (isinstance(encoder, ImportedEncoder) and encoder.model)
        for encoder in run.encoders.values()
    )


def _resources(part: Any) -> list[Any]:
    """Returns the lookup tables and variables of a search and all its parts."""
    if isinstance(part, tf.lookup.StaticHashTable | tf.Variable):
        return [part]
    if isinstance(part, list | tuple):
        return [found for inner in part for found in _resources(inner)]
    is_ours = type(part).__module__.startswith(search.__name__) or isinstance(part, SearchPart)
    return _resources([*vars(part).values()]) if is_ours else []


def _require_graph(module: tf.Module, hparams: DecodeHParams) -> None:
    """Raises UsageError if a part of the search runs Python code, which no graph can hold."""
    graph = module.__call__.get_concrete_function().graph.as_graph_def()
    nodes = (graph.node, *(function.node_def for function in graph.library.function))
    if any(node.op in _PYTHON for node in itertools.chain(*nodes)):
        raise UsageError(
            f"decode hparam search={hparams.search}: it runs Python code (tf.py_function or "
            "tf.numpy_function), which no SavedModel can hold; write it with TensorFlow's "
            "operations, or leave it out"
        )


def _with_eos(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Appends EOS to the non-empty rows of [N, (S)] ids."""
    is_full = tf.cast(ids.row_lengths() > 0, tf.int64)
    ends = tf.fill([tf.reduce_sum(is_full)], EOS_ID)
    return tf.concat([ids, tf.RaggedTensor.from_row_lengths(ends, is_full)], axis=1)


def _padded_at_end(inputs: tf.Tensor) -> tf.Tensor:
    """Moves the padding of [N, S] ids to the end; `pad_sequences` of Keras puts it first."""
    order = tf.argsort(tf.cast(inputs == PAD_ID, tf.int32), axis=1, stable=True)
    return tf.gather(inputs, order, axis=1, batch_dims=1)


def _truncated(inputs: tf.Tensor, limit: int) -> tf.Tensor:
    """Cuts [N, S] ids to `limit`, ending a cut row with EOS; 0: no limit."""
    if not limit:
        return inputs
    is_long = tf.math.count_nonzero(inputs, axis=1, dtype=tf.int32) > limit
    inputs = inputs[:, :limit]
    is_last = tf.range(tf.shape(inputs)[1]) == limit - 1
    return tf.where(is_long[:, None] & is_last, EOS_ID, inputs)


def _trimmed(ids: tf.Tensor) -> tf.Tensor:
    """Drops the last columns of [N, K, T] ids that are padding in all rows."""
    ends = tf.where(ids == PAD_ID, 0, tf.range(1, tf.shape(ids)[2] + 1))
    return ids[:, :, : tf.reduce_max(tf.pad(tf.reshape(ends, [-1]), [[0, 1]]))]
