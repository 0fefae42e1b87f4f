"""How things are shown: data stays elsewhere.

traces   traces and repairs as text and HTML; colours
figures  one picture for a trace
widgets  boards with controls
graph    pictures and an explorer of both graphs
"""
