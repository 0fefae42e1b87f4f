"""memnb: methods by which LLM agents remember.

The names below are imported when they are first used, so that `import memnb` itself costs nothing. The loop of a method
that the registry has (`memnb.evaluation.registry.METHODS`) needs no entry here.
"""

from functools import partial
from importlib import import_module

from .core import VIEWS

__version__ = '0.1.0'

_HOMES = {
    'core.conversation': (
        'Conversation',
        'Question',
        'Session',
        'Turn',
        'Snippet',
        'chunk_snippets',
        'turn_snippets',
    ),
    'core.messages': ('as_conversation',),
    'core.time': ('TimeSpan', 'find_times', 'parse_date'),
    'core.retriever': ('Hit', 'Retriever', 'as_retriever'),
    'core.roles': ('Role', 'RuleLM'),
    'core.models': ('OpenAILM', 'ScriptedLM', 'as_lm', 'LMByRole', 'RecordedLM'),
    'core.tools': ('Tool', 'as_tools'),
    'core.loop': ('Loop', 'Run'),
    'core.trace': ('Trace',),
    'retrieval.bm25': ('LexicalIndex',),
    'retrieval.vectors': ('MiniLMEmbedder', 'OpenAIEmbedder', 'DenseIndex'),
    'retrieval.hybrid': ('HybridIndex',),
    'retrieval.reranked': ('Reranked',),
    'retrieval.turns': ('TurnMemory',),
    'retrieval.learned': ('LearnedRanker', 'fit_ranker'),
    'memr3.router': ('RouterLimits', 'route'),
    'memr3.loop': ('MemR3',),
    'remem.facts': ('Fact', 'Gist'),
    'remem.graph': ('GistGraph',),
    'remem.loop': ('REMem', 'REMemS'),
    'mragent.graph': ('CueTagGraph',),
    'mragent.loop': ('MRAgent',),
    'mragent.separation': ('best_passive_error',),
    'memma.bank': ('Edit', 'Entry', 'MemoryBank'),
    'memma.loop': ('MemMA',),
    'baselines': ('RAG', 'FullContext', 'RagCotRag', 'SelfRAG'),
    'adapters.chats': ('load_conversation',),
    'adapters.turn_store': ('TurnStore',),
    'evaluation.datasets': ('load_locomo', 'load_octet', 'load_sample', 'load_jsonl', 'save_jsonl'),
    'evaluation.registry': ('load_dataset', 'Memory', 'Method'),
    'evaluation.examples': ('ExampleLM', 'example_trace'),
    'evaluation.judge': ('Judge', 'calibrate_judge'),
    'evaluation.experiment': ('Experiment',),
    'views.figures': ('trace_figure',),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF.keys() - {'trace_figure'})  # that needs matplotlib: a star import goes without it


def _show(view, data, *options):
    return getattr(import_module('memnb.views.traces'), view)(data, *options)


for _view in ('trace_text', 'trace_html', 'evolution_text', 'evolution_html', 'audit_html'):
    VIEWS[_view] = partial(_show, _view)


def __getattr__(name):
    value = None
    if name in _HOME_OF:
        value = getattr(import_module(f'{__name__}.{_HOME_OF[name]}'), name)
    elif name[0].isupper():  # a class: that of a registered method
        value = import_module(f'{__name__}.evaluation.registry').find_loop(name)
    if value is None:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_HOME_OF})
