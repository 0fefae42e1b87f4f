"""Benchmarks, metrics and experiments.

datasets      LoCoMo, your own JSON lines, REALTALK, LongMemEval and others; downloads
beam          BEAM: chats with an assistant, ten abilities, rubrics
test_of_time  Test of Time
metrics       named metrics, intervals over clusters
refusals      questions that must be declined, answers that decline
judge         a judge by rule or model, and its calibration
registry      the one list of data sets, memories and methods
experiment    grids, resume, workers; its parts: plan, rows, store, usage, tables
estimate      calls and tokens of a run, from a dry run by rules
papers        the papers' tables as declarations
searches      what a search finds; whether a ranking does harm
report        one HTML page of a run
"""
