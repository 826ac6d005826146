"""Static word vectors that pip has installed: a text is the mean of the vectors of its tokens.

The vectors do not depend on the other words, so a text takes a millisecond or less. Synonyms have
similar vectors, and so have words in related languages: TF-IDF cannot know that.
"""

from collections.abc import Callable

import numpy as np

from surelabel.encoding.registry import Backbone

TEXTS_AT_ONCE = 256
MOST_CHARACTERS = 20_000
"""Longer texts are cut."""


def open_words(backbone: Backbone) -> Callable[[list[str]], np.ndarray]:
    """Return what makes features (N, D) float32 of N texts: of length 1, and 0 without tokens."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(backbone.find("tokenizer")))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    (vectors,) = load_file(backbone.find("weights")).values()

    def encode(texts: list[str]) -> np.ndarray:
        out = np.zeros((len(texts), vectors.shape[1]), dtype=np.float32)
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            some = [text[:MOST_CHARACTERS] for text in texts[start : start + TEXTS_AT_ONCE]]
            for row, tokens in enumerate(tokenizer.encode_batch(some, add_special_tokens=False), start):
                if tokens.ids:
                    out[row] = vectors[tokens.ids].mean(0, dtype=np.float32)
        length = np.linalg.norm(out, axis=1, keepdims=True)
        scaled: np.ndarray = np.divide(out, length, out=out, where=length > 0)
        return scaled

    return encode
