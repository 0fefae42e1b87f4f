"""MemMA: guided writing and asking; probes repair the memory before commit.

bank          entries, edits, history, transactions
prompts       prompts and reply types
construction  writing under guidance
retrieval     sufficiency, gaps, query refinement
probe_repair  kinds of probes, probing, repairs, verification; injected faults
loop          the whole cycle
"""
