"""REMem: a graph of gists and facts, explored with tools.

facts    gists, facts, windows of time
prompts  prompts and reply types; what a session yields
graph    the memory
tools    the five tools, and one that reads the turns
loop     the agent and its single step
"""
