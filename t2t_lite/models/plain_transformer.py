"""Which models are the Transformer alone, as other programs know it."""

from t2t_lite.errors import UserError
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.models.known_weights import described
from t2t_lite.models.one_function import computes_as_transformer
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.models.transformer import Transformer, TransformerDecoder, TransformerEncoder


def require_plain(model: Seq2Seq, program: str) -> TransformerHParams:
    """Returns the hyperparameters of a Transformer with a source and no layers of its own.

    Args:
        model: any model.
        program: that is to run it, for errors.

    Raises:
        UserError: it is another model.
    """
    hparams = model.hparams
    parts = (TransformerEncoder, TransformerDecoder)
    is_plain = (
        isinstance(model, Transformer) and (model.encoder_class, model.decoder_class) == parts
    )
    if not (is_plain and isinstance(hparams, TransformerHParams)):
        raise UserError(
            f"model {type(model).__name__}: {program} runs only Transformers; export a "
            "SavedModel (--format=savedmodel)"
        )
    if hparams.prepends_inputs:
        raise UserError(
            f"hparam prepend_mode={hparams.prepend_mode}: a decoder in {program} cannot read the "
            "source; export a SavedModel (--format=savedmodel)"
        )
    if not model.has_inputs:
        raise UserError(
            f"a language model: the export for {program} is for models with a source; export a "
            "SavedModel (--format=savedmodel)"
        )
    known = (model.encoder, model.decoder, model.inputs_embedding, model.output_projection)
    ids = {id(weight) for part in known for weight in part.weights}
    if own := [weight for weight in model.weights if id(weight) not in ids]:
        raise UserError(
            f"model {type(model).__name__}: {program} has no {described(model, own)}; export a "
            "SavedModel (--format=savedmodel)"
        )
    if not computes_as_transformer(model):
        raise UserError(
            f"model {type(model).__name__}: {program} computes what a Transformer does with these "
            "weights, and this class computes something else; export a SavedModel "
            "(--format=savedmodel)"
        )
    return hparams
