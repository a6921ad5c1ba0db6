"""Asks a server for the outputs of an exported model, by TensorFlow Serving's REST interface.

Needs neither TensorFlow nor the model.
"""

import http.client
import json
import math
import re
import urllib.error
import urllib.request
from typing import Any, NamedTuple

from t2t_lite.data.problem import Problem
from t2t_lite.errors import UserError
from t2t_lite.text.text_encoder import EOS_ID

# An output is one line.
_SEPARATORS = str.maketrans("\n\r\t", "   ")
# JSON can spell half of a surrogate pair, which cannot be printed.
_SURROGATE = re.compile("[\ud800-\udfff]")
# Bytes of an answer, whatever the server sends; real ones have a few thousand.
_LONGEST_ANSWER = 1 << 26
_LONGEST_REFUSAL = 300


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
            Answer(self._problem.postprocess(source, self._text(output)).text, score)
            for output, score in self._predict([*ids, EOS_ID])
        ]

    def _text(self, ids: Any) -> str:
        return self._encoders["targets"].decode(ids).translate(_SEPARATORS)

    def _predict(self, source: str | list[int]) -> list[Any]:
        """Returns pairs of output and score."""
        body = self._post(json.dumps({"inputs": {"inputs": [source]}}).encode())
        try:
            answers = self._answers(json.loads(body))
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
            raise UserError(
                f"{self._url} answered {body[:80]!r}, which no model of t2t-exporter would"
            ) from None
        if any(math.isnan(answer.score) for answer in answers):
            raise UserError(
                f"{self._url} answered with NaN in place of scores: the model gives no "
                "probabilities for this line; export another checkpoint"
            )
        return answers

    def _answers(self, found: Any) -> list[Any]:
        """Returns an answer's outputs as the source was given: texts or lists of ids.

        Raises:
            KeyError, TypeError, ValueError, OverflowError: it is not an answer.
        """
        (outputs,), (scores,) = found["outputs"]["outputs"], found["outputs"]["scores"]
        if not isinstance(scores, list):
            outputs, scores = [outputs], [scores]
        elif not isinstance(outputs, list):  # with return_beams there are several
            raise TypeError(outputs)
        is_output = _is_text if self._problem is None else _are_ids
        if not all(map(is_output, outputs)) or not {int, float}.issuperset(map(type, scores)):
            raise TypeError(outputs, scores)
        return [Answer(*pair) for pair in zip(outputs, map(float, scores), strict=True)]

    def _post(self, body: bytes) -> bytes:
        try:
            request = urllib.request.Request(
                self._url, body, headers={"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=self._timeout_secs) as answer:
                content = answer.read(_LONGEST_ANSWER + 1)
            if len(content) > _LONGEST_ANSWER:
                raise UserError(
                    f"{self._url} answered with more than {_LONGEST_ANSWER >> 20} MiB, which no "
                    "model of t2t-exporter would"
                )
            return content
        except urllib.error.HTTPError as error:
            raise UserError(
                f"{self._url} refused: {error.code} {error.reason}: {_beginning(error)!r}"
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


def _is_text(output: Any) -> bool:
    return isinstance(output, str) and not _SURROGATE.search(output)


def _are_ids(output: Any) -> bool:
    return isinstance(output, list) and all(type(i) is int for i in output)


def _beginning(refusal: urllib.error.HTTPError) -> bytes:
    """Returns what a refusal says, as far as it arrives."""
    try:
        return refusal.read(_LONGEST_REFUSAL)
    except (OSError, http.client.HTTPException):
        return b""
