"""MRAgent: cues lead through tags to contents.

graph       episodes, units, topics; the ternary relation
cues        cues and labels without a model
prompts     prompts and reply types; what a session yields
tools       the memory, and its seven tools
activation  which cues and branches a question reaches, with scores
loop        the method; any memory; ablations
separation  Theorem 4.1: active against passive reading
"""
