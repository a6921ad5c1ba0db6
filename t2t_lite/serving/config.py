"""What the server is told, field by field as `t2t-serve`'s flags; needs no TensorFlow."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class ServerConfig:
    """One run of `server.run`; an empty name or path means "not given"."""

    output_dir: str = ""  # run folder of t2t-trainer; empty: the folder of checkpoint_path
    checkpoint_path: str = ""  # the checkpoint to use; empty: the newest in output_dir
    decode_hparams: str = ""  # changes to the problem's search settings: "name=value,..."
    host: str = "127.0.0.1"  # address to listen on
    port: int = 8080  # 0: any that is free
    max_body_size: int = 1 << 20  # bytes of a request
    max_texts: int = 128  # texts of a request
    max_text_length: int = 10_000  # characters of a text
    max_subwords: int = 20_000  # subwords of a request, all texts together
    queue_size: int = 256  # requests that may wait; more are answered 429
    max_connections: int = 512  # open at a time; beyond, whoever keeps the server waiting is closed
    timeout: float = (
        60.0  # seconds that a request may take, that its answer may take, and that the end may
    )
