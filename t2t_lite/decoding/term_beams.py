"""How large a search with terms is: its beam, and what a source with terms costs in a batch."""

from t2t_lite.decoding.hypotheses import Source

# The smallest beam of a search with terms, and the largest that it grows to with their number.
_LEAST_BEAM, _LARGEST_BEAM = 4, 64

CHARACTERS_OF_ID = 4  # of text, about


def beam_with_terms(ids: int, beam_size: int) -> int:
    """Returns a beam with a place for each bank: a power of two, of which there are few.

    Args:
        ids: of all terms that an output must contain.
        beam_size: that of a search without terms.
    """
    least = max(2 * beam_size, ids + 1, _LEAST_BEAM)
    return min(1 << (least - 1).bit_length(), max(_LARGEST_BEAM, 2 * beam_size))


def length_in_batch(source: Source, length: int, beam_size: int) -> int:
    """Returns as how long a source counts where sources become batches.

    Terms that are many or long make both its output and the beam larger. The search with the
    smallest beam counts as one without terms, because most outputs meet a few terms without it.

    Args:
        source: a source with ids, or with none.
        length: its ids.
        beam_size: that of a search without terms.
    """
    if not length or source.terms is None:
        return length
    ids = source.terms.size(source.text) // CHARACTERS_OF_ID
    factor = beam_with_terms(ids, beam_size) / beam_with_terms(0, beam_size)
    return round((length + ids) * factor)
