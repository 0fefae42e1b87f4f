"""MRAgent: cues lead through tags to contents.

graph       episodes, units, topics; the ternary relation; cues and labels
prompts     prompts and reply types; what a session yields
tools       the memory, and its seven tools
activation  the active set: how cues, tags and branches are scored
loop        the method; any memory; ablations
separation  Theorem 4.1: active against passive reading
"""
