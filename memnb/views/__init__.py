"""How things are shown: data stays elsewhere.

html     traces and repairs as text and HTML; colours
widgets  boards with controls
graph    pictures and an explorer of both graphs
site     the notebooks as a site
"""
