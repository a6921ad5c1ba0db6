"""Small, fast Transformers that learn from a teacher's translations (`t2t-distill`).

A deep encoder reads a sentence once; the decoder, which works once for each subword of the output,
is shallow, at little cost in quality once the text is distilled (Kasai et al., ICLR 2021). Widths
are those of Bergamot's students, tiny11 and base, made by Edinburgh's recipe for efficient models
(Bogoychev et al., WNGT 2020); those have recurrent decoders of two layers, as have the sets here
whose names end in ssru; the others have attention. Their recipe has neither dropout nor label
smoothing (github.com/browsermt/students, train-student): a teacher's text has less noise to
overfit, and its words are meant. For less than about a million pairs, add dropout:
`--hparams=layer_prepostprocess_dropout=0.1`.

Parameters are counted with 32,000 subwords for both languages.
"""

from t2t_lite import registry
from t2t_lite.hparams.transformer import TransformerHParams, transformer_base


def _student(decoder_layers: int) -> TransformerHParams:
    return transformer_base().copy(
        num_encoder_layers=6,
        num_decoder_layers=decoder_layers,
        optimizer_adam_beta2=0.98,
        layer_prepostprocess_dropout=0.0,
        attention_dropout=0.0,
        relu_dropout=0.0,
        label_smoothing=0.0,
    )


def _tiny(decoder_layers: int) -> TransformerHParams:
    return _student(decoder_layers).copy(hidden_size=256, filter_size=1536)


@registry.register_hparams
def transformer_student_base_e6d2() -> TransformerHParams:
    """A student of 512 features, 6 encoder and 2 decoder layers: 44 million parameters."""
    return _student(2)


@registry.register_hparams
def transformer_student_base_e6d1() -> TransformerHParams:
    """A student of 512 features, 6 encoder layers and 1 decoder layer: 40 million parameters."""
    return _student(1)


@registry.register_hparams
def transformer_student_tiny_e6d2() -> TransformerHParams:
    """A student of 256 features, 6 encoder and 2 decoder layers: 17 million parameters."""
    return _tiny(2)


@registry.register_hparams
def transformer_student_tiny_e6d1() -> TransformerHParams:
    """A student of 256 features, 6 encoder layers and 1 decoder layer: 16 million parameters."""
    return _tiny(1)


def _ssru(student: TransformerHParams) -> TransformerHParams:
    """Returns a student in the form that Bergamot's engine runs: post-norm, recurrent decoder.

    Its kernels start at half the usual size, for the reason that `transformer_multi30k` gives.
    """
    return student.copy(
        decoder_self="ssru",
        layer_preprocess_sequence="none",
        layer_postprocess_sequence="dan",
        initializer_gain=0.25,
    )


@registry.register_hparams
def transformer_student_base_ssru() -> TransformerHParams:
    """Post-norm `transformer_student_base_e6d2` with a recurrent decoder: 43 million parameters."""
    return _ssru(_student(2))


@registry.register_hparams
def transformer_student_tiny_ssru() -> TransformerHParams:
    """Post-norm `transformer_student_tiny_e6d2` with a recurrent decoder: 17 million parameters."""
    return _ssru(_tiny(2))
