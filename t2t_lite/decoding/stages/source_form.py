"""The form in which models read sources: the problem's, and that of texts that look equal."""

from t2t_lite.decoding.hypotheses import Source
from t2t_lite.decoding.stages.stage import Stage


class SourceForm(Stage):
    """Gives a source the form in which the model reads it, and remembers how users wrote it."""

    def before(self, source: Source, place: str) -> Source:
        """Returns a source in that form."""
        given = self.codec.problem.source(source.text)
        text = self.codec.as_source(given, source.kept)
        return source._replace(text=text, given="" if given == text else given)
