"""Stores that answer in any order, for the loops that search them."""

from hypothesis import strategies as st

from memnb.core.conversation import Snippet
from memnb.core.retriever import Hit, Searchable


class Store(Searchable):
    """Any order of any snippets for any query, the same for the same query; it masks, as the protocol asks."""

    def __init__(self, snippets, orders):
        self.snippets, self.orders, self.asked = snippets, orders, []

    def search(self, query, k=10, *, exclude=(), during=None):
        self.asked.append((query, k, frozenset(exclude)))
        order = self.orders[len(query) % len(self.orders)]
        ranked = [self.snippets[place] for place in order if self.snippets[place].id not in exclude]
        return [Hit(snippet, 1.0) for snippet in ranked[:k]]


@st.composite
def stores(draw, texts, speakers, turns, said=st.none()):
    """Up to six snippets, some of several turns, some of none, some sharing turns; up to three orders of them."""
    count = draw(st.integers(0, 6))
    sources = st.lists(st.sampled_from(turns), max_size=3, unique=True).map(tuple)
    snippets = [
        Snippet(
            f's{number}', draw(texts), draw(sources), speaker=draw(st.sampled_from([None, *speakers])), said=draw(said)
        )
        for number in range(count)
    ]
    return Store(snippets, draw(st.lists(st.permutations(range(count)), min_size=1, max_size=3)))
