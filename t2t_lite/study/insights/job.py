"""The job of `t2t-insights`: writes a page or picture of the attention to a text."""

import logging
import pathlib
from collections.abc import Sequence

import numpy as np

from t2t_lite import files
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.engine import Target
from t2t_lite.decoding.hypotheses import best_output
from t2t_lite.decoding.loading import find_models, load_decoder
from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine
from t2t_lite.errors import UsageError, UserError
from t2t_lite.models.attention_maps import attention_maps
from t2t_lite.study.insights import picture
from t2t_lite.study.insights.config import HTML, PNG, InsightsConfig
from t2t_lite.study.insights.page import page
from t2t_lite.study.insights.views import View, alignment_view, make_views
from t2t_lite.text.alignment.attention_links import word_links
from t2t_lite.text.alignment.pharaoh import Links
from t2t_lite.text.text_encoder import EOS_ID

log = logging.getLogger(__name__)


def run(config: InsightsConfig) -> str:
    """Writes a page or picture of a trained model's attention to a text.

    Returns:
        The path of the file.
    """
    settings = DecoderConfig(
        output_dir=config.output_dir,
        checkpoint_path=(config.checkpoint_path,) if config.checkpoint_path else (),
        decode_hparams=config.decode_hparams,
    )
    decoder, trained = load_decoder(settings, find_models(settings))
    path = config.output_file or str(trained[0].run.folder / f"insights.{config.output_format}")
    files.refuse_overwriting(path, trained[0].files())
    views, output = look(decoder, config.text, config.target)
    log.info("target: %s", output)
    if config.output_format == HTML:
        about = f"{decoder.problem.name}, {pathlib.Path(trained[0].checkpoint).name}"
        files.write_text(path, page(about, config.text, output, views))
        return path
    view = _chosen(views, config.attention or "encoder_decoder")
    chosen = (config.layer, heads_of(config.heads))
    if config.output_format == PNG:
        with files.whole_file(path) as temporary:
            temporary.write_bytes(picture.png(view, *chosen))
    else:
        files.write_text(path, picture.svg(view, *chosen))
    return path


def look(decoder: Decoder, text: str, target: str = "") -> tuple[list[View], str]:
    """Returns all attention within and between a text and its target, and the target.

    The last view, if the model has attention to the source, has the links between words, as
    `t2t-decoder --output_format=alignments` writes them.

    Args:
        decoder: holds the model.
        text: the source.
        target: its target; "": the decoder's best output.

    Raises:
        UserError: the model has no attention to show, or the text is too long.
        UsageError: the text is empty.
    """
    if not decoder.problem.has_inputs:
        raise UserError(
            f"{decoder.problem.name} is a language model, without attention between two texts, "
            "which is what t2t-insights shows"
        )
    [source] = decoder.text.encode([text], name="--text, line")
    if not source.ids:
        raise UsageError("--text is empty: give a sentence")
    if 0 < decoder.engine.max_input_size < len(source.ids):
        raise UserError(
            f"--text has {len(source.ids)} subwords, the model reads at most "
            f"{decoder.engine.max_input_size}: shorten it, or set --decode_hparams=max_input_size=0"
        )
    if target:
        [ids] = decoder.text.encode_targets([target], "--target, line")
    else:
        [found] = decoder.decode([source])
        ids, target = found[0].ids if found else [], best_output(found).text
    ids = [*source.start, *ids, EOS_ID]
    assert isinstance(decoder.engine, TensorFlowEngine)
    model = decoder.engine.models[0]
    maps = attention_maps(model, source.ids, ids)
    if not maps:
        raise UserError(f"{type(model).__name__} has no attention to show")
    if any(np.isnan(layer).any() for layers in maps.values() for layer in layers):
        raise decoder.engine.diverged(source, "--text, line 1")
    tokens = (
        decoder.text.source_tokens(source.ids),
        decoder.text.target_tokens(ids),
    )
    views = make_views(maps, *tokens)
    if links := _links(decoder, Target(source, ids), target):
        views.append(alignment_view(links, source.text, target))
    return views, target


def _links(decoder: Decoder, target: Target, text: str) -> Links:
    """Returns the links between the words of a source and its target; none without attention."""
    found = decoder.details(target)
    if found.attention is None:
        return []
    tokens = found.source_tokens, found.tokens
    return word_links(target.source.text, text, *tokens, found.attention, found.is_aligned)


def _chosen(views: Sequence[View], kind: str) -> View:
    for view in views:
        if view.kind == kind:
            return view
    kinds = " or ".join(view.kind for view in views)
    raise UsageError(f"--attention={kind}: the model does not have it; choose {kinds}")


def heads_of(text: str) -> list[int]:
    """Returns the numbers in a text such as "1,3"; an empty list for "".

    Raises:
        UsageError: it is not a list of numbers from 1.
    """
    try:
        return [int(number) for number in text.split(",")] if text else []
    except ValueError:
        raise UsageError(f"--heads={text}: expected numbers from 1, such as 1,3") from None
