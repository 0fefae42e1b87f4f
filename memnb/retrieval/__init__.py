"""Search over snippets.

index     a store of snippets, masks and ranking: what all indexes share
bm25      rank-bm25, and the incremental index with its scores
vectors   embedders, dense search
passages  the short pieces of a text that a search scores
features  what a ranking sees of a question and a turn
learned   a ranking by fitted weights, and the fit
hybrid    the default: passages by words and meaning, turns ranked
standing  standing instructions and preferences
around    the messages on either side of a hit
reranked  the ranking over any store
turns     a memory of turns that is saved and opened
"""
