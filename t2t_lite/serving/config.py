"""Options of the server, which are `t2t-serve`'s flags; needs no TensorFlow."""

import dataclasses

from t2t_lite.decoding.config import (
    COMPUTE_TYPE_HELP,
    COMPUTE_TYPES,
    ENGINE_HELP,
    ENGINES,
    FLOAT32,
    QUALITY_HELP,
    TENSORFLOW,
)
from t2t_lite.runs.config import TrainedModelConfig
from t2t_lite.settings import setting


@dataclasses.dataclass(frozen=True)
class ServerConfig(TrainedModelConfig):
    """One run of `server.run`; empty text means "not given"."""

    decode_hparams: str = setting(
        "",
        "Changes to the problem's search settings: NAME=VALUE,... (t2t-decoder --help). beam_size "
        "is the largest n_best that a request may ask for.",
        listed=True,
    )
    engine: str = setting(TENSORFLOW, ENGINE_HELP, choices=ENGINES)
    compute_type: str = setting(FLOAT32, COMPUTE_TYPE_HELP, choices=COMPUTE_TYPES)
    quality_run: str = setting("", QUALITY_HELP, path=True)
    host: str = setting(
        "127.0.0.1",
        "Address to listen on; 0.0.0.0 accepts connections from the whole network.",
        group="Where",
    )
    port: int = setting(8080, "Port to listen on; 0 picks a free one.", minimum=0, maximum=65535)
    api_keys: str = setting(
        "",
        "File with a key in each line: only clients that send one of them, as api_key, may "
        "translate or detect languages.",
        path=True,
    )
    from_code: str = setting(
        "",
        "Code of the texts' language, such as en (default: the code in the problem's name).",
        group="What LibreTranslate's clients see",
    )
    to_code: str = setting(
        "", "Code of the outputs' language (default: the code in the problem's name)."
    )
    max_body_size: int = setting(
        1 << 20, "Bytes per request; a larger one is answered 413.", minimum=1, group="Limits"
    )
    max_texts: int = setting(128, "Texts per request; more are answered 413.", minimum=1)
    max_text_length: int = setting(
        10_000, "Characters per text; a longer one is answered 413.", minimum=1
    )
    max_subwords: int = setting(
        20_000, "Subwords per request, over all its texts; more are answered 413.", minimum=1
    )
    queue_size: int = setting(
        256, "Requests that may wait; any beyond are answered 429.", minimum=1
    )
    max_connections: int = setting(
        512,
        "Open connections. When a new one exceeds the limit, the connection that has kept the "
        "server waiting longest is closed; if none has for a second, the new one is answered 503.",
        minimum=1,
    )
    timeout: float = setting(
        60.0,
        "Seconds for a request's body to arrive (then 408), for the answer (then 504) and for the "
        "client to read it (then the connection is closed). Also the longest a shutdown takes.",
        minimum=0,
        maximum=86_400,
    )
