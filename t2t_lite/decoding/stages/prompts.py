"""Language models: a line is a prompt, with which every output begins, unseen."""

import logging

from t2t_lite.decoding.hypotheses import Source
from t2t_lite.decoding.stages.stage import Stage

log = logging.getLogger(__name__)


class Prompts(Stage):
    """Makes the text of a language model's source the prefix of its outputs."""

    def before(self, source: Source, place: str) -> Source:
        """Returns a source with its prefix; warns of one that is longer than sources may be."""
        if self.codec.has_inputs:
            return source
        prefix = self.codec.target_ids(source.text, place)
        if self.codec.is_too_long(prefix):
            log.warning(
                "%s: the prompt has %d subwords, more than max_input_size=%d, and is read whole: "
                "what follows may be poor",
                *(place, len(prefix), self.codec.max_input_size),
            )
        return source._replace(prefix=prefix)
