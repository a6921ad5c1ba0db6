"""What is known of the keys of the settings of Marian's models.

Of files, Marian reads a model and those that decoder.yml names: no other has an effect. Of keys,
without effect is what belongs to other kinds of models (`marian_settings.py` checks what is of
recurrent decoders), to training, to the machine, or to the form of Marian's input and output.
"""

from t2t_lite.interop.imports.known_keys import known
from t2t_lite.interop.layouts.marian import DECODER_SELF

# The settings inside a model. A list is written as its items, joined by +.
MODEL = known(
    read="""
        dim-vocabs dim-emb enc-depth dec-depth transformer-heads input-types transformer-dim-ffn
        transformer-decoder-dim-ffn transformer-ffn-activation transformer-preprocess
        transformer-postprocess transformer-postprocess-top tied-embeddings tied-embeddings-src
        tied-embeddings-all output-omit-bias transformer-tied-layers version
    """,
    without_effect="""
        bert-.* comet-.* (enc|dec)-(cell|type).* dim-rnn skip layer-normalization
        transformer-(aan-.*|dim-aan|rnn-projection) transformer-guided-alignment-layer
        transformer-depth-scaling transformer-alibi-.* separator-symbol
    """,
    **{
        "type": ("transformer",),
        "transformer-decoder-autoreg": tuple(DECODER_SELF),
        "transformer-postprocess-emb": ("d", ""),
        "transformer-ffn-depth": ("2",),
        "transformer-decoder-ffn-depth": ("0", "2"),
        "transformer-attention-mask": ("default",),
        "factors-combine": ("sum",),
    },
)

# Those of decoder.yml.
DECODER = known(
    read="""
        models vocabs shortlist skip-cost beam-size normalize word-penalty max-length-factor
        allow-unk allow-special
    """,
    without_effect="""
        authors cite build-info config workspace log log-.* quiet quiet-.* seed check-nan
        interpolate-env-vars relative-paths dump-config sigterm port model-mmap
        input output tsv tsv-fields n-best alignment word-scores stat-freq no-spm-decode
        max-length max-length-crop devices num-devices cpu-threads data-threads
        max-length-break ssplit-.* gemm-precision cache-.* check-bytearray quality
        mini-batch.* maxi-batch.* fp16 precision optimize gemm-type quantize-range
    """,
    weights=(["1"], ["1.0"], "1", "1.0"),
)
