"""Search over snippets.

bm25     rank-bm25, and the incremental index with its scores
vectors  embedders, dense and hybrid search
"""
