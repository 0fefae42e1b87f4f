"""Rules: a rule-based stand-in for each role of the methods. Importing this package registers them for `RuleLM`."""

from . import memma, mragent, remem, text
