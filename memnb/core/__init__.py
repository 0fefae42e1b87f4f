"""What every method stands on: records, time, models, roles, loops, traces, storage.

conversation  turns, sessions, questions, snippets; chunking; a session in a prompt
numeric_dates the order of day, month and year in the dates of a list or a file
time          spans of time; time expressions in a sentence
text          stems, sentences, names, coverage, times and numbers in a text
retriever     the search protocol; any store; the turn budget
roles         typed questions to a model; reading replies and the ids they cite
models        scripted, served, local and recorded language models
trace         the record of an answered question
loop          tools, the run of a question, the base of all methods
build         ids for new messages, sessions that fail, progress
storage       memories that add, forget, save and reopen
exercises     self-checking exercises of the notebooks
"""

# How data is shown: name -> function of the data and its options. `memnb` registers the functions of `memnb.views` here,
# so that `core` and the methods import nothing of it.
VIEWS = {}
