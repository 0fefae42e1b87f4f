"""Search over snippets.

index    a store of snippets, masks and ranking: what all indexes share
bm25     rank-bm25, and the incremental index with its scores
vectors  embedders, dense and hybrid search
"""
