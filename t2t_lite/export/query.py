"""Asks a server for the outputs of an exported model, by TensorFlow Serving's REST interface.

Needs neither TensorFlow nor the model.
"""

import http.client
import json
import math
import urllib.error
import urllib.request
from typing import Any, NamedTuple

from t2t_lite.data.problem import Problem
from t2t_lite.data.text_encoder import EOS_ID
from t2t_lite.errors import UserError

# An output is one line.
_SEPARATORS = str.maketrans("\n\r\t", "   ")


class Answer(NamedTuple):
    """One output."""

    text: str
    score: float


class Client:
    """Asks for outputs, line by line.

    Args:
        server: `host:port`, or a URL up to there.
        servable_name: what the server calls the model.
        timeout_secs: seconds to wait for an answer.
        problem: for a model that `t2t-exporter` calls `ids`: whose text is made ids here; None for
            a `translate`.
        data_dir: where the problem's vocabulary is.

    Raises:
        UserError: the vocabulary is missing.
    """

    def __init__(
        self,
        server: str,
        servable_name: str,
        timeout_secs: int,
        problem: Problem | None = None,
        data_dir: str = "",
    ) -> None:
        root = server if "://" in server else f"http://{server}"
        self._url = f"{root}/v1/models/{servable_name}:predict"
        self._timeout_secs = timeout_secs
        self._problem = problem
        self._encoders = problem.get_feature_encoders(data_dir) if problem else {}

    def ask(self, line: str) -> list[Answer]:
        """Returns the outputs for a line, best first; none for a line without text.

        Raises:
            UserError: there is no answer, or it is not that of an exported model.
            DataError: a token of the line is unknown.
        """
        if self._problem is None:
            return self._predict(line.strip()) if line.strip() else []
        source = self._problem.source(line)
        ids = self._encoders["inputs"].encode(source)
        if not ids:
            return []
        return [
            Answer(self._problem.show(source, self._text(output)).text, score)
            for output, score in self._predict([*ids, EOS_ID])
        ]

    def _text(self, ids: Any) -> str:
        return self._encoders["targets"].decode(ids).translate(_SEPARATORS)

    def _predict(self, source: str | list[int]) -> list[Any]:
        """Returns pairs of output and score."""
        body = self._post(json.dumps({"inputs": {"inputs": [source]}}).encode())
        try:
            found = json.loads(body)["outputs"]
            (outputs,), (scores,) = found["outputs"], found["scores"]
        except (KeyError, TypeError, ValueError, RecursionError):
            raise UserError(
                f"{self._url} answered {body[:80]!r}, which no model of t2t-exporter would"
            ) from None
        # With return_beams there are several.
        pairs = (
            zip(outputs, scores, strict=True) if isinstance(scores, list) else [(outputs, scores)]
        )
        answers = [Answer(*pair) for pair in pairs]
        if any(math.isnan(answer.score) for answer in answers):
            raise UserError(
                f"{self._url} answered with NaN in place of scores: the model gives no "
                "probabilities for this line; export another checkpoint"
            )
        return answers

    def _post(self, body: bytes) -> bytes:
        try:
            request = urllib.request.Request(
                self._url, body, headers={"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=self._timeout_secs) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            raise UserError(
                f"{self._url} refused: {error.code} {error.reason}: {error.read()[:300]!r}"
            ) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            # A timeout while connecting comes wrapped, one while waiting for the answer does not.
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(cause, TimeoutError):
                raise UserError(
                    f"{self._url} did not answer within {self._timeout_secs} s: raise "
                    "--timeout_secs"
                ) from None
            raise UserError(f"{self._url} cannot be asked: {cause}") from None
