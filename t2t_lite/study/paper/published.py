"""The figures of the paper's tables (Vaswani et al. 2017), as printed."""

import dataclasses

VOCABULARY = 37_000  # subwords, sources and targets together; section 5.1
BATCH_TOKENS = 25_000  # source tokens, and as many target tokens, per update; section 5.1

# Sustained single-precision FLOP/s of a GPU; footnote of section 6.1.
SUSTAINED = {"K80": 2.8e12, "K40": 3.7e12, "M40": 6.0e12, "P100": 9.5e12}


@dataclasses.dataclass(frozen=True)
class LayerType:
    """A row of Table 1: n positions, d features, kernel size k, neighbourhood r."""

    name: str
    complexity: str  # operations of a layer
    sequential: str  # sequential operations
    path: str  # longest path between two positions
    order_in_n: float | None  # exponents of the dominating term of the complexity
    order_in_d: float | None


# The paper has no row for separable convolutions; section 4 gives their complexity.
TABLE_1 = {
    "self_attention": LayerType("Self-Attention", "n²·d", "1", "1", 2, 1),
    "recurrent": LayerType("Recurrent", "n·d²", "n", "n", 1, 2),
    "convolutional": LayerType("Convolutional", "k·n·d²", "1", "log_k(n)", 1, 2),
    "separable": LayerType("Convolutional (separable)", "k·n·d + n·d²", "1", "log_k(n)", 1, 2),
    "restricted": LayerType("Self-Attention (restricted)", "r·n·d", "1", "n/r", 1, 1),
}


@dataclasses.dataclass(frozen=True)
class System:
    """A row of Table 2, newstest2014: BLEU, and floating-point operations of training."""

    name: str
    ende: float | None = None
    enfr: float | None = None
    ende_flops: float | None = None
    enfr_flops: float | None = None


TABLE_2 = (
    System("ByteNet", ende=23.75),
    System("Deep-Att + PosUnk", enfr=39.2, enfr_flops=1.0e20),
    System("GNMT + RL", 24.6, 39.92, 2.3e19, 1.4e20),
    System("ConvS2S", 25.16, 40.46, 9.6e18, 1.5e20),
    System("MoE", 26.03, 40.56, 2.0e19, 1.2e20),
    System("Deep-Att + PosUnk Ensemble", enfr=40.4, enfr_flops=8.0e20),
    System("GNMT + RL Ensemble", 26.30, 41.16, 1.8e20, 1.1e21),
    System("ConvS2S Ensemble", 26.36, 41.29, 7.7e19, 1.2e21),
    System("Transformer (base model)", 27.3, 38.1, 3.3e18, 3.3e18),
    System("Transformer (big)", 28.4, 41.8, 2.3e19, 2.3e19),
)


@dataclasses.dataclass(frozen=True)
class PublishedModel:
    """A system of Table 2 as a registered model."""

    model: str
    hparams_set: str  # with the published sizes
    vocabulary: int  # of sources and targets each, as published
    # Tokens of a sentence per subword of the Transformer's; 5 for characters. The operations of an
    # update are those of the same text.
    tokens_per_subword: float = 1.0


MODELS = {
    # 323 characters in the source, 296 in the target.
    "ByteNet": PublishedModel("byte_net", "bytenet_paper", 323, tokens_per_subword=5.0),
    "Deep-Att + PosUnk": PublishedModel("deep_att", "deep_att", 30_000),
    "GNMT + RL": PublishedModel("gnmt", "gnmt_wu2016", 32_000),
    # 40,000 joint merges leave about 42,000 subwords in each language.
    "ConvS2S": PublishedModel("conv_s2s", "conv_s2s_wmt_en_de", 42_000),
    "MoE": PublishedModel("moe_lstm", "moe_lstm_2048", 32_000),
    "Transformer (base model)": PublishedModel("transformer", "transformer_paper_base", VOCABULARY),
    "Transformer (big)": PublishedModel("transformer", "transformer_paper_big", VOCABULARY),
}


@dataclasses.dataclass(frozen=True)
class Training:
    """How a Transformer of Table 2 was trained (section 5.2)."""

    hours: float
    steps: int
    gpus: int = 8
    gpu: str = "P100"


TRAININGS = {
    "Transformer (base model)": Training(12, 100_000),
    "Transformer (big)": Training(3.5 * 24, 300_000),
}


@dataclasses.dataclass(frozen=True)
class Variation:
    """A row of Table 3, newstest2013."""

    name: str  # "a1": the first of the rows (A); the set is transformer_paper_a1
    label: str  # the variation, in the paper's notation
    perplexity: float  # per wordpiece
    bleu: float
    parameters: float | None = None  # millions; None: not printed, because as base
    steps: int = 100_000

    @property
    def hparams_set(self) -> str:
        """The registered set of this row."""
        return f"transformer_paper_{self.name}"


TABLE_3 = (
    Variation("base", "base", 4.92, 25.8, 65),
    Variation("a1", "(A) h=1, d_k=d_v=512", 5.29, 24.9),
    Variation("a2", "(A) h=4, d_k=d_v=128", 5.00, 25.5),
    Variation("a3", "(A) h=16, d_k=d_v=32", 4.91, 25.8),
    Variation("a4", "(A) h=32, d_k=d_v=16", 5.01, 25.4),
    Variation("b1", "(B) d_k=16", 5.16, 25.1, 58),
    Variation("b2", "(B) d_k=32", 5.01, 25.4, 60),
    Variation("c1", "(C) N=2", 6.11, 23.7, 36),
    Variation("c2", "(C) N=4", 5.19, 25.3, 50),
    Variation("c3", "(C) N=8", 4.88, 25.5, 80),
    Variation("c4", "(C) d_model=256, d_k=d_v=32", 5.75, 24.5, 28),
    Variation("c5", "(C) d_model=1024, d_k=d_v=128", 4.66, 26.0, 168),
    Variation("c6", "(C) d_ff=1024", 5.12, 25.4, 53),
    Variation("c7", "(C) d_ff=4096", 4.75, 26.2, 90),
    Variation("d1", "(D) P_drop=0.0", 5.77, 24.6),
    Variation("d2", "(D) P_drop=0.2", 4.95, 25.5),
    Variation("d3", "(D) ε_ls=0.0", 4.67, 25.3),
    Variation("d4", "(D) ε_ls=0.2", 5.47, 25.7),
    Variation("e", "(E) learned positions", 4.92, 25.7),
    Variation("big", "big", 4.33, 26.4, 213, 300_000),
    # From the first version of the paper, "Two Feed-Forward Layers = Attention over Parameters".
    Variation("aop1", "AOP₁ h_p=8, n_p=1536", 4.92, 25.5, 65),
    Variation("aop2", "AOP₂ h_p=16, n_p=512", 4.86, 25.9, 65),
)


@dataclasses.dataclass(frozen=True)
class Parser:
    """A row of Table 4."""

    name: str
    training: str
    f1: float  # WSJ, section 23


TABLE_4 = (
    Parser("Vinyals & Kaiser et al. (2014)", "WSJ only, discriminative", 88.3),
    Parser("Petrov et al. (2006)", "WSJ only, discriminative", 90.4),
    Parser("Zhu et al. (2013)", "WSJ only, discriminative", 90.4),
    Parser("Dyer et al. (2016)", "WSJ only, discriminative", 91.7),
    Parser("Transformer (4 layers)", "WSJ only, discriminative", 91.3),
    Parser("Zhu et al. (2013)", "semi-supervised", 91.3),
    Parser("Huang & Harper (2009)", "semi-supervised", 91.3),
    Parser("McClosky et al. (2006)", "semi-supervised", 92.1),
    Parser("Vinyals & Kaiser et al. (2014)", "semi-supervised", 92.1),
    Parser("Transformer (4 layers)", "semi-supervised", 92.7),
    Parser("Luong et al. (2015)", "multi-task", 93.0),
    Parser("Dyer et al. (2016)", "generative", 93.3),
)
