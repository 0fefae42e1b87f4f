"""MuSiQue and 2WikiMultihopQA in HippoRAG's form: gold by an oracle that compares whole texts, and damaged files."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memnb.core.conversation import Conversation
from memnb.retrieval.hybrid import HybridIndex
from memnb.evaluation.datasets import corpus_path, load_passages
from memnb.evaluation.datasets import DatasetError

SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
titles = st.sampled_from(['Lindow', 'Port Ansel', 'Ilka  Brandovic', ' Tidewater Press'])
sentence = st.sampled_from(['It is a town.', ' It is small.', 'She was an editor.', 'It closed\nin 1990.', 'In May.'])
passages = st.tuples(titles, st.lists(sentence, min_size=1, max_size=3)).map(lambda pair: (pair[0], tuple(pair[1])))


@pytest.fixture(scope='module')
def load(tmp_path_factory):
    path = tmp_path_factory.mktemp('passages') / 'small.json'

    def written(questions, corpus, lines=False):
        for place, content in ((path, questions), (corpus_path(path), corpus)):
            place.write_text('\n'.join(map(json.dumps, content)) if lines else json.dumps(content), encoding='utf-8')
        return load_passages(path)

    return written


def musique(marked, **more):
    """A question in MuSiQue's form; `marked` are pairs of a passage and whether it supports, None: not said."""
    paragraphs = [
        {'idx': place, 'title': title, 'paragraph_text': ' '.join(text)}
        | ({} if mark is None else {'is_supporting': mark})
        for place, ((title, text), mark) in enumerate(marked)
    ]
    return {
        'id': '3hop1__1_2_3',
        'question': 'Who?',
        'answer': 'Ilka',
        'answer_aliases': ['I. B.'],
        'paragraphs': paragraphs,
    } | more


def hotpot(context, gold, **more):
    """A question in HotpotQA's form over passages; `gold` are titles."""
    return {
        '_id': 'x',
        'question': 'Who?',
        'answer': 'Ilka',
        'type': 'comparison',
        'context': [[title, list(text)] for title, text in context],
        'supporting_facts': [[title, 0] for title in gold],
    } | more


def bare(title, text):
    """What identifies a passage, computed in another way than by the module."""
    return ' '.join(title.split()), ''.join(letter for letter in text if not letter.isspace())


def gold_of(question):
    """What the published script calls gold, by whole contents: its three branches, in the words of this test."""
    if 'supporting_facts' in question:
        wanted = {title for title, _ in question['supporting_facts']}
        return {bare(title, ''.join(text)) for title, text in question['context'] if title in wanted}
    return {
        bare(one['title'], one['paragraph_text']) for one in question['paragraphs'] if one.get('is_supporting', True)
    }


@st.composite
def files(draw):
    """A corpus, perhaps with repeats, and questions of both forms over passages that are mostly in it."""
    pool = draw(st.lists(passages, min_size=2, max_size=8))
    corpus = [{'title': title, 'text': draw(st.sampled_from([' ', '', '\n'])).join(text)} for title, text in pool]
    questions = []
    for _ in range(draw(st.integers(1, 3))):
        shown = draw(st.lists(st.sampled_from(pool) | passages, min_size=1, max_size=4))
        if draw(st.booleans()):
            questions.append(
                hotpot(shown, draw(st.lists(st.sampled_from([title for title, _ in shown]), min_size=1, max_size=3)))
            )
        else:
            questions.append(musique([(one, draw(st.sampled_from([True, False, None]))) for one in shown]))
    return corpus, questions


@given(files(), st.booleans())
@settings(max_examples=150, suppress_health_check=SLOW)
def test_evidence_is_what_the_published_script_calls_gold(load, file, lines):
    corpus, questions = file
    talk = load(questions, corpus, lines)
    held = {bare(one['title'], one['text']) for one in corpus}
    contents = {turn.id: bare(*turn.text.split('\n', 1)) for turn in talk.turns}
    assert set(contents.values()) == held and len(contents) == len(held)
    for asked, record in zip(talk.questions, questions):
        gold = gold_of(record)
        assert {contents[id] for id in asked.evidence} == gold & held
        assert len(set(asked.evidence)) == len(asked.evidence)
        assert bool(asked.notes) == bool(gold - held)


@given(files())
@settings(max_examples=60, suppress_health_check=SLOW)
def test_the_laws_of_a_conversation(load, file):
    corpus, questions = file
    talk = load(questions, corpus)
    assert Conversation.from_json(talk.to_json()) == talk
    assert len({one.id for one in talk.questions}) == len(questions)
    assert [one.position for one in talk.questions] == list(range(len(questions)))
    assert all(len(session.turns) == 1 and session.time is None for session in talk.sessions)
    assert talk.speakers == ('',) and talk.id == 'small'
    first = {bare(one['title'], one['text']): f'P{place}:1' for place, one in reversed(list(enumerate(corpus)))}
    assert {turn.id for turn in talk.turns} == set(first.values())


CORPUS = [
    {'title': 'Lindow', 'text': 'A town. It has a fair.', 'idx': 0},
    {'title': 'Ilka', 'text': 'She was an editor.', 'idx': 1},
    {'title': 'Ilka', 'text': 'A horse of that name.', 'idx': 2},
]


def test_answers_aliases_and_categories(load):
    shown = [(('Ilka', ('She was an editor.',)), True)]
    talk = load(
        [
            musique(shown),
            musique(shown, answer=['Ilka', 'I.', 'Ilka'], answer_aliases=[' ', 'I. B.']),
            hotpot([('Lindow', ('A town.', 'It has a fair.'))], ['Lindow']),
            {'question': 'What? ', 'id': 'sample/1'},
        ],
        CORPUS,
    )
    assert [(one.answer, one.aliases, one.category) for one in talk.questions] == [
        ('Ilka', ('I. B.',), '3-hop'),
        ('Ilka', ('I.', 'I. B.'), '3-hop'),
        ('Ilka', (), 'comparison'),
        (None, (), None),
    ]
    assert [one.evidence for one in talk.questions] == [('P1:1',)] * 2 + [('P0:1',), ()]
    assert talk.turn('P1:1').text == 'Ilka\nShe was an editor.'


def test_a_title_without_its_text_is_dropped(load):
    talk = load([hotpot([], ['Lindow']), hotpot([], ['Nobody'])], CORPUS)
    assert [one.evidence for one in talk.questions] == [(), ()] and all(
        'dropped' in one.notes[0] for one in talk.questions
    )


def test_passages_beside_each_other_lend_each_other_nothing(load):
    def found(corpus):
        talk = load([{'question': 'Which editor had a horse in a town with a fair?'}], corpus)
        return {hit.snippet.text: round(hit.score, 9) for hit in HybridIndex.of(talk).search(talk.questions[0].text, 9)}

    many = [
        *CORPUS,
        *({'title': f'Hamlet {place}', 'text': f'It lies {place} miles from the coast.'} for place in range(4)),
    ]
    assert found(many) == found(many[2:] + many[:2]) == found(many[::2] + many[1::2])


def change(record, **fields):
    return {name: value for name, value in (record | fields).items() if value is not ...}


GOOD = musique([(('Ilka', ('She was an editor.',)), True)])
PAIR = hotpot([('Lindow', ('A town.', 'It has a fair.'))], ['Lindow'])


@pytest.mark.parametrize(
    'questions, corpus, message',
    [
        ([GOOD, change(GOOD, question=...)], CORPUS, r'small.json\[1\].question: Field required'),
        ([change(GOOD, answer=True)], CORPUS, r'\[0\].answer\[0\]: Input should be a valid string, got True'),
        ([change(GOOD, answerable=False)], CORPUS, r'\[0\].answerable: Input should be True, got False'),
        ([change(PAIR, supporting_facts=[['Lindow']])], CORPUS, r'supporting_facts\[0\]\[1\]: Field required'),
        ([GOOD], [], 'small_corpus.json: expected a list of records'),
        ([GOOD], [*CORPUS, {'title': 'x'}], r'small_corpus.json\[3\].text: Field required'),
    ],
)
def test_what_is_refused_is_named(load, questions, corpus, message):
    with pytest.raises(DatasetError, match=message):
        load(questions, corpus)
