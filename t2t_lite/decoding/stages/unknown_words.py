"""Unknown words: a source word takes the place of a token that the vocabulary does not have."""

from collections.abc import Iterator, Sequence

import numpy as np

from t2t_lite.decoding.engine import Target
from t2t_lite.decoding.hypotheses import Details, Source
from t2t_lite.decoding.stages.stage import Stage
from t2t_lite.text.text_encoder import TokenTextEncoder


class UnknownWords(Stage):
    """Replaces each unknown token by the source token that it attends to most.

    This is PosUnk (Luong et al. 2015); the decode hparam `replace_unk` asks for it.
    """

    def refused(self) -> str:
        """Returns why no word can be replaced."""
        if not self._is_on:
            return ""
        if self.codec.unknown_id is None:
            return (
                "decode hparam replace_unk=true: the target vocabulary has no token for unknown "
                "words; leave it out, or train with VocabType.TOKEN and an oov_token"
            )
        if not self.codec.engine.has_source_attention:
            return (
                "decode hparam replace_unk=true: there is no attention to a source, which chooses "
                "the words to copy; leave it out"
            )
        return ""

    def needs_details(self, target: Target, is_shown: bool) -> bool:
        """Whether a hypothesis has an unknown token."""
        return self._is_on and self.codec.unknown_id in target.ids

    def written(
        self, source: Source, ids: Sequence[int], text: str, details: Details | None
    ) -> str:
        """Returns an output whose unknown tokens are those of the source."""
        if not self._is_on or details is None or details.attention is None:
            return text
        return " ".join(self._tokens(source, ids, details.source_tokens[:-1], details.attention))

    @property
    def _is_on(self) -> bool:
        return self.codec.engine.hparams.replace_unk

    def _tokens(
        self, source: Source, ids: Sequence[int], sources: list[str], attention: np.ndarray
    ) -> Iterator[str]:
        size = len(sources)
        if isinstance(self.codec.encoders["inputs"], TokenTextEncoder):
            sources = source.text.split()  # the encoder does not know all of them
        tokens = self.codec.target_tokens(ids)
        for id_, token, weights in zip(ids, tokens, attention, strict=False):
            attended = int(np.argmax(weights[:size]))
            yield sources[attended] if id_ == self.codec.unknown_id else token
