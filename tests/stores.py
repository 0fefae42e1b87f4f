"""Stores that answer in any order, for the loops that search them."""
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
