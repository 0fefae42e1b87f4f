"""MemR3: a router over explicit evidence and gaps.

tracker  evidence and gaps; the idealised tracker of Theorem B.4
router   Algorithm 1 and its limits
prompts  the tracker's prompt and its directive
loop     the method
"""
