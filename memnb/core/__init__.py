"""What every method stands on: records, time, models, roles, loops, traces, storage.

conversation  turns, sessions, questions, snippets; chunking; a session in a prompt
messages      a conversation from lists, objects and documents of other libraries
timestamps    when a message was written; the order of day, month and year
time          spans of time; time expressions in a sentence
ownership     who may change what is remembered
date_words    words for times in other languages, and the English for them
names         names and ids, cleaned; persons who look alike
scripts       words and sentence ends of any script
text          stems, sentences, names, coverage, times and numbers in a text
retriever     the search protocol; any store; the turn budget
roles         typed questions to a model
models        scripted, served, local and recorded language models
replies       what a model answered, read leniently
citations     the ids that a reply cites
ownership     whose a statement is, and who may change it
tools         functions that a model may call
calls         the choice of a tool, read from a reply
trace         the record of an answered question
run           one question: searches, calls and costs as they happen
loop          the base of all methods
build         ids for new messages, sessions that fail, progress
storage       memories that add, forget, save and reopen
exercises     self-checking exercises of the notebooks
"""

# How data is shown: name -> function of the data and its options. `memnb` registers the functions of `memnb.views` here,
# so that `core` and the methods import nothing of it.
VIEWS = {}
