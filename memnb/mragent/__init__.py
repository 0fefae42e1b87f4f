"""MRAgent: cues lead through tags to contents.

contents    episodes, semantic units, topics; months as cues, versions of a fact
labels      cues, tags and titles: of a text, counted, merged
prompts     prompts and reply types; what a session yields
graph       the ternary relation, and the memory
tools       the eight tools
activation  the active set: how cues, tags and branches are scored
loop        the method; any memory; ablations
separation  Theorem 4.1: active against passive reading
"""
