"""Client of TensorFlow Serving's REST interface, for exported models.

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
from t2t_lite.text.source_form import has_text
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID

# An output is one line.
_SEPARATORS = str.maketrans("\n\r\t", "   ")
# JSON can encode half of a surrogate pair, which cannot be printed.
_SURROGATE = re.compile("[\ud800-\udfff]")
# Most bytes read of an answer; real ones have a few thousand.
_MAX_ANSWER = 1 << 26
_MAX_REFUSAL = 300


class Answer(NamedTuple):
    """One output."""

    text: str
    score: float


class Client:
    """Requests outputs, line by line.

    Args:
        server: `host:port`, or a URL up to there.
        servable_name: the server's name of the model.
        timeout_secs: seconds to wait for an answer.
        problem: for an export of kind `ids`: the problem that encodes and decodes the text; None
            for kind `translate`.
        data_dir: where the problem's vocabulary is.
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
        """Returns the outputs for a line, best first; none for a line without text."""
        if self._problem is None:
            return self._predict(line.strip()) if has_text(line) else []
        source = self._problem.source(line)
        if self._problem.has_inputs:
            source = self._encoders["inputs"].as_source(source)
            ids = self._encoders["inputs"].encode(source)
            if not ids:
                return []
            ids = [*ids, EOS_ID]
        else:
            ids = self._encoders["targets"].encode(source) or [PAD_ID]
        return [
            Answer(self._problem.postprocess(source, self._text(output)).text, score)
            for output, score in self._predict(ids)
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
                f"{self._url} answered with NaN instead of scores: the model has no "
                "probabilities for this line; export another checkpoint"
            )
        return answers

    def _answers(self, found: Any) -> list[Any]:
        """Returns an answer's outputs, of the same kind as the source: texts or lists of ids.

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
                content = answer.read(_MAX_ANSWER + 1)
            if len(content) > _MAX_ANSWER:
                raise UserError(
                    f"{self._url} answered with more than {_MAX_ANSWER >> 20} MiB, which no "
                    "model of t2t-exporter would"
                )
            return content
        except urllib.error.HTTPError as error:
            raise UserError(
                f"{self._url} refused: {error.code} {error.reason}: {_beginning(error)!r}"
            ) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            # A timeout while connecting is wrapped; one while waiting for the answer is not.
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(cause, TimeoutError):
                raise UserError(
                    f"{self._url} did not answer within {self._timeout_secs} s: raise "
                    "--timeout_secs"
                ) from None
            raise UserError(f"{self._url} cannot be reached: {cause}") from None


def _is_text(output: Any) -> bool:
    return isinstance(output, str) and not _SURROGATE.search(output)


def _are_ids(output: Any) -> bool:
    return isinstance(output, list) and all(type(i) is int for i in output)


def _beginning(refusal: urllib.error.HTTPError) -> bytes:
    """Returns the beginning of a refusal, as far as it arrives."""
    try:
        return refusal.read(_MAX_REFUSAL)
    except (OSError, http.client.HTTPException):
        return b""
