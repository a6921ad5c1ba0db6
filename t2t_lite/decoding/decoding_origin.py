"""What the outputs of a decoding are made from: models, settings, and the files that it reads."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from t2t_lite.decoding.config import STANDARD_INPUT, DecoderConfig
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.input_lines import require_regular
from t2t_lite.decoding.request import files_of, given_flags
from t2t_lite.decoding.stages.registered import origin
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.kept_work import Fingerprint
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.version import __version__


def other_files(config: DecoderConfig, run: RunFolder) -> list[str]:
    """Returns the files that say how to decode: of terms and forbidden words, and a short list."""
    shortlist = config.search_settings(run).shortlist
    return [*files_of(config), *filter(None, [shortlist])]


@dataclasses.dataclass(frozen=True)
class DecodingOrigin:
    """The origin of the outputs of a decoding, as kept_work.py describes it.

    Attributes:
        config: the settings.
        inputs: the files that are decoded or scored, which are read while batches are decoded.
        others: files that say how to decode, which are read before.
        fingerprint: of both, before they were read.
    """

    config: DecoderConfig
    inputs: Sequence[str]
    others: Sequence[str]
    fingerprint: Fingerprint

    @classmethod
    def of(cls, config: DecoderConfig, run: RunFolder) -> "DecodingOrigin":
        """Takes the fingerprint of the files that are named.

        Raises:
            UserError: one is missing.
        """
        named = (config.decode_from_file, config.score_file, config.prefix_file)
        inputs = [path for path in named if path not in ("", STANDARD_INPUT)]
        for path in inputs:
            require_regular(path)
        others = other_files(config, run)
        return cls(config, inputs, others, Fingerprint([*inputs, *others]))

    def with_data(self, paths: Sequence[str]) -> "DecodingOrigin":
        """Returns this with `paths` as the inputs, such as the files of a split of the data."""
        fingerprint = Fingerprint([*paths], self.fingerprint)
        return dataclasses.replace(self, inputs=paths, fingerprint=fingerprint)

    def require_same_inputs(self) -> None:
        """Raises UserError if a file of the inputs was replaced since."""
        if self.inputs:
            self.fingerprint.require_unchanged(*self.inputs)

    def values(self, trained: Sequence[TrainedModel]) -> dict[str, Any]:
        """Returns all that determines the outputs, by names for messages, as values for JSON."""
        hparams = self.config.search_settings(trained[0].run).to_dict()
        shortlist = hparams.pop("shortlist")
        return (
            {
                "task": "score" if self.config.score_file else "decode",
                "input": [self._digest(path) for path in self.inputs],
                "checkpoint": [one.origin() for one in trained],
                "decode_hparams": hparams,
                "shortlist": self._digest(shortlist),
                "long_input": self.config.long_input,
                "output_format": self.config.output_format,
            }
            | origin(given_flags(self.config), self._digest)
            | self._shard()
        )

    def of_journal(self, trained: Sequence[TrainedModel], decoder: Decoder) -> dict[str, Any]:
        """Returns all that determines the outputs to the bit; `others` have been read by now.

        Raises:
            UserError: one of `others` was replaced meanwhile.
        """
        if self.others:
            self.fingerprint.require_unchanged(*self.others)
        quality = decoder.text.quality
        judged = {"quality": quality.origin()} if quality else {}
        return self.values(trained) | {
            "release": __version__,
            "engine": decoder.engine.kind,
            **judged,
        }

    def _shard(self) -> dict[str, Any]:
        """Returns which part of the inputs is decoded; nothing if all of it is."""
        shards, worker_id = self.config.decode_shards, self.config.worker_id
        return {} if shards == 1 else {"part": [worker_id, shards]}

    def _digest(self, path: str) -> str:
        return self.fingerprint.digest(path) if path else ""
