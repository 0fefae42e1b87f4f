"""memnb: methods by which LLM agents remember.

The names below are imported when they are first used, so that `import memnb` itself costs nothing.
"""
from importlib import import_module

__version__ = '0.1.0'

_HOMES = {
    'conversation': ('Conversation', 'Question', 'Session', 'Turn'),
    'span': ('TimeSpan',),
    'timespan': ('find_times', 'parse_date'),
    'snippets': ('Snippet', 'chunk_snippets', 'session_snippets', 'turn_snippets'),
    'search': ('Hit', 'Retriever', 'as_retriever'),
    'lexical': ('LexicalIndex',),
    'embedders': ('OpenAIEmbedder',),
    'indexes': ('DenseIndex', 'HybridIndex'),
    'role': ('Role', 'RuleLM'),
    'lm': ('OpenAILM', 'ScriptedLM', 'as_lm'),
    'recorded': ('RecordedLM',),
    'tools': ('Tool', 'as_tools'),
    'facts': ('Fact', 'Gist'),
    'gist_graph': ('GistGraph',),
    'remem': ('REMem', 'REMemS'),
    'cue_tag_graph': ('CueTagGraph',),
    'mragent': ('MRAgent',),
    'separation': ('best_passive_error',),
    'edits': ('Edit', 'Entry'),
    'memory_bank': ('MemoryBank',),
    'memma': ('Crew', 'MemMA'),
    'trace': ('Trace',),
    'run': ('Loop', 'Run'),
    'router': ('RouterLimits', 'route'),
    'memr3': ('MemR3',),
    'baselines': ('RAG', 'FullContext', 'RagCotRag', 'SelfRAG'),
    'feedback': ('Feedback',),
    'datasets': ('load_locomo', 'load_sample'),
    'jsonl': ('load_jsonl', 'save_jsonl'),
    'loading': ('load_dataset',),
    'judge': ('Judge',),
    'calibration': ('calibrate_judge',),
    'methods': ('Memory', 'Method'),
    'experiment': ('Experiment',),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)


def __getattr__(name):
    if name not in _HOME_OF:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    value = getattr(import_module(f'{__name__}.{_HOME_OF[name]}'), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
