"""MRAgent: cues lead through tags to contents.

contents    episodes, semantic units, topics; versions of a fact
cues        the key by which labels are matched; months as cues
labels      cues, tags and titles: of a text, counted, merged
prompts     prompts and reply types; what a session yields
graph       the ternary relation, and the memory
tools       the eight tools
activation  the active set: how cues, tags and branches are scored
loop        the method; any memory; ablations
separation  Theorem 4.1: active against passive reading
"""
