"""Pure Keras layers: attention, feed-forward, convolution, embedding, position, residual, dropout.

Shapes use the notation of the whole package: B sentences, S source and T target positions,
K beams, H heads, D features, V vocabulary.
"""
