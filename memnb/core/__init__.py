"""What every method stands on: records, time, models, roles, loops, traces, storage.

conversation  turns, sessions, questions, snippets; chunking
time          spans of time; time expressions in a sentence
text          stems, keywords, requirements, support, by rule
retriever     the search protocol; any store; the turn budget
roles         typed questions to a model; reading replies
models        scripted, served and recorded language models
extraction    a session in a prompt; validation of cited turns
trace         the record of an answered question
loop          tools, the run of a question, the base of all methods
storage       memories that add, forget, save and reopen
exercises     self-checking exercises of the notebooks
"""
