"""The learned ranking: features against their definitions, the fit against its derivative, masks, damage, forgetting."""

import math
import pickle
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fakes import Letters
from memnb.core.conversation import Conversation, Question, Session, Snippet, Turn
from memnb.core.text import tokenize
from memnb.retrieval.bm25 import BM25Retriever
from memnb.retrieval.learned import (
    FEATURES,
    fit_ranker,
    fit_weights,
    LearnedRanker,
    shipped_ranker,
    training_pairs,
    WordVectors,
)
from memnb.retrieval.vectors import DenseIndex, HybridIndex, WordLlamaEmbedder

WORDS = 'boat sea red blue sail harbour storm the a Ana running three yesterday I my why? 2021 Zita'.split()
texts = st.lists(st.sampled_from(WORDS), max_size=8).map(' '.join)
NOTHING = LearnedRanker({})
PLACE = {name: place for place, name in enumerate(FEATURES)}


@st.composite
def talks(draw, max_size=14):
    """Turns of two sessions by Ana, Ben and nobody, some a place apart."""
    made = []
    for number in draw(st.lists(st.integers(0, 30), unique=True, max_size=max_size)):
        speaker = draw(st.sampled_from(['Ana', 'Ben', None]))
        made.append(
            Snippet(
                f's{number}',
                draw(texts),
                (f's{number}',),
                None,
                speaker,
                datetime(2021, 5, 1 + number % 2),
                f'd{number % 2}',
                number // 2,
            )
        )
    return made


def index_of(snippets, ranker=NOTHING, embedder=Letters(), **options):
    index = HybridIndex(embedder, names=['Ana', 'Ben'], ranker=ranker, **options)
    index.add(snippets)
    return index


def table(index, query, known=()):
    """Features by id and name."""
    ids, rows = index.features(query, known)
    return {id: dict(zip(FEATURES, row)) for id, row in zip(ids, rows)}


@settings(max_examples=60)
@given(snippets=talks(), query=texts, data=st.data())
def test_features_are_those_of_their_definitions(snippets, query, data):
    known = data.draw(st.lists(st.sampled_from([one.id for one in snippets] + ['unknown']), max_size=3))
    got = table(index_of(snippets), query, known)
    assert got.keys() == {one.id for one in snippets}
    bm25 = BM25Retriever(snippets).scores(query) if snippets else {}
    dense = DenseIndex(Letters(), names=['Ana', 'Ben'])
    dense.add(snippets)
    cosines = dense.scores(query)
    at = {(one.session, one.position): one for one in snippets}
    asked = {name for name in ('Ana', 'Ben') if name in query.split() and any(one.speaker == name for one in snippets)}
    topic = {*tokenize(query)} - {one.speaker.lower() for one in snippets if one.speaker}
    held = {one.id: {*tokenize(f'{one.speaker or ""} {one.text}')} for one in snippets}

    def idf(term):
        return math.log((len(snippets) + 1) / (sum(term in terms for terms in held.values()) + 0.5))

    top = max(bm25.values(), default=0)
    bm25 = {id: score / top for id, score in bm25.items()} if top > 0 else {}
    for one in snippets:
        row = got[one.id]
        before, after = at.get((one.session, one.position - 1)), at.get((one.session, one.position + 1))
        assert row['words'] == pytest.approx(bm25.get(one.id, 0), abs=1e-9)
        assert row['words_before'] == pytest.approx(bm25.get(before.id, 0) if before else 0, abs=1e-9)
        assert row['words_after'] == pytest.approx(bm25.get(after.id, 0) if after else 0, abs=1e-9)
        assert row['cosine'] == pytest.approx(cosines[one.id], abs=1e-6)
        assert row['speaker'] == (one.speaker in asked)
        assert row['question'] == ('?' in one.text)
        assert row['speaker_meaning'] == pytest.approx(row['speaker'] * row['meaning'])
        assert row['after_question'] == bool(before and '?' in before.text)
        assert row['length'] == pytest.approx(math.log1p(len(one.text.split())))
        if topic:
            weights = {term: idf(term) for term in topic}
            total = sum(weights.values())
            here, around = (
                {term for term in topic if any(other and term in held[other.id] for other in turns)}
                for turns in ([one], [one, before, after])
            )
            part, most = (sum(weights[term] for term in terms) / total for terms in (here, around))
            assert (
                part - 1e-6 <= row['likeness'] <= part + 0.4 * (1 - part) + 1e-6
            )  # a like word counts less than the same
            assert most - 1e-6 <= row['likeness_near'] <= most + 0.4 * (1 - most) + 1e-6
        found = [id for id in known if id in got]
        cosine = [float(dense.vector(one.id) @ dense.vector(id)) for id in dict.fromkeys(found)]
        assert row['evidence_nearest'] == pytest.approx(max(cosine, default=0), abs=1e-5)
        assert row['evidence_mean'] == pytest.approx(np.mean(cosine) if cosine else 0, abs=1e-5)
        assert row['evidence_next'] == any(other and other.id in found for other in (before, after))


@pytest.mark.parametrize(
    'query, feature, marked',
    [
        ('What happened in May 2021?', 'day_asked', 'ab'),
        ('What happened in June 2021?', 'day_asked', ''),
        ('What happened on 2 May 2021?', 'day_asked', 'b'),
        ('How many boats are there?', 'number_asked', 'a'),
        ('When did it happen?', 'number_asked', ''),
        ('When did it happen?', 'time_asked', 'b'),
        ('How many boats are there?', 'time_asked', ''),
    ],
)
def test_what_the_kind_of_a_question_asks_for_counts_only_there(query, feature, marked):
    talk = [
        Snippet(id, text, (id,), None, 'Ana', datetime(2021, 5, day), 'd', day)
        for day, (id, text) in enumerate({'a': 'we saw three boats with Zita', 'b': 'it came yesterday'}.items(), 1)
    ]
    assert {id for id, row in table(index_of(talk), query).items() if row[feature]} == set(marked)


@settings(max_examples=40)
@given(snippets=talks(), gone=st.sets(st.integers(0, 30)), query=texts, data=st.data())
def test_what_was_added_and_removed_in_between_does_not_show(snippets, gone, query, data):
    index = index_of(data.draw(st.permutations(snippets)))
    index.search('boat', 3)
    index.remove([one.id for one in snippets if int(one.id[1:]) in gone])
    index.add([one for one in snippets if int(one.id[1:]) in gone and int(one.id[1:]) % 2])
    anew = index_of(list(index))
    assert table(index, query) == table(anew, query)


@settings(max_examples=40)
@given(snippets=talks(), query=texts, k=st.integers(1, 14), seen=st.integers(1, 14), data=st.data())
def test_every_hit_says_why_and_the_first_stage_follows_what_the_ranker_saw(snippets, query, k, seen, data):
    ranker = LearnedRanker(
        {
            name: data.draw(st.sampled_from([-1.0, 0.0, 0.5, 2.0]))
            for name in ('words', 'speaker', 'question', 'length', 'likeness')
        }
    )
    index = index_of(snippets, ranker)
    index.SEEN = seen
    hits = index.search(query, len(snippets))
    assert {hit.snippet.id for hit in hits} == {one.id for one in snippets}
    assert index.search(query, k) == hits[:k]
    plain = index_of(snippets, None).scores(query)
    least = sorted(plain.values())[-min(seen, len(plain))] if plain else 0
    ranked = [hit for hit in hits if plain[hit.snippet.id] >= least]
    assert hits[: len(ranked)] == ranked and all(hit.why is None for hit in hits[len(ranked) :])
    for hit in ranked:
        assert sum(hit.why.values()) == pytest.approx(hit.score, abs=1e-9)
    rest = hits[len(ranked) :]
    assert rest == sorted(rest, key=lambda hit: (-plain[hit.snippet.id], hit.snippet.id))


@settings(max_examples=40)
@given(seed=st.integers(0, 999), ridge=st.sampled_from([0.5, 5.0, 50.0]), factor=st.sampled_from([0.1, 7.0]))
def test_the_fit_is_where_the_derivative_is_zero_in_any_unit(seed, ridge, factor):
    random = np.random.default_rng(seed)
    pairs = []
    for _ in range(6):
        rows, share = random.normal(size=(8, 3)), random.integers(0, 2, 8) + np.eye(8)[0]
        pairs.append((rows, share / share.sum()))
    spread = np.concatenate([rows for rows, _ in pairs]).std(0)
    weights = fit_weights(pairs, ridge)

    def value(weights):
        total = -ridge / 2 * np.sum((weights * spread) ** 2)
        return total + sum(share @ (rows @ weights) - math.log(np.exp(rows @ weights).sum()) for rows, share in pairs)

    for place in range(3):
        step = np.eye(3)[place] * 1e-4
        assert abs(value(weights + step) - value(weights - step)) / 2e-4 < 1e-5
    again = fit_weights([(rows * [1, factor, 1], share) for rows, share in pairs], ridge)
    assert again == pytest.approx(weights / [1, factor, 1], rel=1e-5, abs=1e-9)


def conversation(number=0, questions=6):
    """Ana answers what Ben asks; the evidence is what Ana says of the thing, and never what Ben says of it."""
    things = 'boat lamp goat piano kettle ladder'.split()[:questions]
    turns = []
    for thing in things:
        turns += [
            Turn(f'{number}-{thing}-1', 'Ben', f'Where is the {thing}?'),
            Turn(f'{number}-{thing}-2', 'Ana', f'The {thing} stands in the shed {number}.'),
        ]
    asked = [
        Question(
            f'Where does Ana keep the {thing}?',
            'In the shed',
            (f'{number}-{thing}-2',),
            'single-hop',
            f'c{number}',
            place,
        )
        for place, thing in enumerate(things)
    ]
    return Conversation(f'c{number}', [Session('D1', turns, datetime(2021, 5, 1))], asked)


def test_it_learns_who_is_asked_about_and_twice_the_same(tmp_path):
    ranker = fit_ranker([conversation(0), conversation(1)])
    assert ranker.weights['speaker'] > 0 > ranker.weights['question'] and ranker.about['questions'] == 12
    few = fit_ranker([conversation(0)], features=['words', 'speaker'])
    assert {name for name, weight in few.weights.items() if weight} == {'words', 'speaker'}
    other = conversation(2, 4)
    index = HybridIndex.of(other, ranker=ranker)
    assert all(index.search(one.text, 1)[0].snippet.id in one.evidence for one in other.questions)
    paths = tmp_path / 'a.json', tmp_path / 'b.json'
    for path in paths:
        fit_ranker([conversation(0), conversation(1)]).save(path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert LearnedRanker.load(paths[0]) == ranker


def test_a_search_that_follows_is_trained_on_what_is_left():
    base = conversation()
    asked = [Question('What does Ana keep?', 'things', ('0-boat-2', '0-ladder-2'), 'multi-hop', 'c', 0)]
    talk = Conversation('c', base.sessions, asked)
    [(rows, share)] = training_pairs([talk])
    assert (
        len(rows) == 12
        and sorted(share)[-2:] == [0.5, 0.5]
        and not rows[:, [PLACE[name] for name in FEATURES if FEATURES[name][0] == 'evidence']].any()
    )
    [(rows, share)] = training_pairs(
        [talk], ranker=NOTHING
    )  # which reads them in their order: after five turns one is left to find, after fifteen none
    assert len(rows) == 7 and share.tolist() == [0] * 6 + [1] and rows[:, PLACE['evidence_nearest']].min() > 0


def test_without_questions_there_is_nothing_to_fit():
    with pytest.raises(ValueError, match="features: expected some of words, .*, got 'colour'"):
        fit_ranker([conversation()], features=['colour'])
    with pytest.raises(ValueError, match='expected questions with an answer and evidence, got none'):
        fit_ranker([Conversation('c', conversation().sessions, [])])


@pytest.mark.parametrize(
    'text', ['', '[]', '{"weights": 3}', '{"weights": {"colour": 1}}', '{"weights": {"words": "much"}}', '{"wait": {}}']
)
def test_what_is_no_ranker_is_refused_with_its_file(tmp_path, text):
    path = tmp_path / 'mine.json'
    path.write_text(text)
    with pytest.raises(ValueError, match='mine.json: expected a ranker that `memnb fit` wrote'):
        LearnedRanker.load(path)
    with pytest.raises(ValueError, match='nowhere.json'):
        LearnedRanker.load(tmp_path / 'nowhere.json')


def test_an_unknown_embedder_gets_the_weights_of_the_default_and_none_those_of_words():
    assert shipped_ranker('a model of mine').weights == shipped_ranker('wordllama-256').weights
    assert not {
        name for name, weight in shipped_ranker(None).weights.items() if weight and FEATURES[name][0] == 'vectors'
    }


INVENTED = [
    ''.join(letters)
    for letters in zip('bdfgklmnprstvz' * 2, 'aeiou' * 6, 'zvtsrpnmlkgfdb' * 2, 'uoiea' * 6, 'xqjw' * 7)
]


@pytest.mark.parametrize(
    'said', ['A kite called {}.', 'Ada swam in the lake for {} minutes.', 'Invoice {} was paid on Tuesday.']
)
@pytest.mark.parametrize(
    'words',
    [
        INVENTED,
        [f'soakfaaa{word[:2]}x' for word in sorted(set(INVENTED))],
        [str(number) for number in range(1, 61)],
        [str(4000 + 7 * number) for number in range(60)],
    ],
    ids=['invented', 'alike', 'numbers', 'ids'],
)
@pytest.mark.parametrize('query', ['{}', 'Who has {}?', 'swimming for {} minutes'])
def test_the_same_word_comes_before_any_that_is_like_it(said, words, query):
    words = list(dict.fromkeys(words))
    index = HybridIndex(names=['Ada'])
    index.add(
        [
            Snippet(f's{place:02}', said.format(word), (), None, 'Ada', None, 'd', place)
            for place, word in enumerate(words)
        ]
    )
    for place, word in enumerate(words):
        assert index.search(query.format(word), 1)[0].snippet.id == f's{place:02}'


def test_nothing_of_a_forgotten_word_stays():
    index = index_of([Snippet('a', 'the violoncello'), Snippet('b', 'the boat')])
    index.search('a violoncello?', 2)
    assert b'violoncello' in pickle.dumps(index._pairs._vectors.__dict__)
    index.remove(['a'])
    index.search('boat', 2)
    held = pickle.dumps([index._pairs._vectors.__dict__, index._pairs._forms, index._snippets])
    assert b'violoncello' not in held and b'boat' in held
    assert list(index._pairs._vectors._rows) == ['boat']


def test_word_vectors_are_made_once_and_are_of_length_one():
    asked = []

    def embed(words):
        asked.extend(words)
        return WordLlamaEmbedder()(words)

    vectors = WordVectors(embed)
    rows = vectors.rows(['boat', 'sea', 'boat'])
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5) and (rows[0] == rows[2]).all()
    vectors.rows(['sea', 'storm'])
    assert asked == ['boat', 'sea', 'storm']


def test_a_store_that_forgets_does_not_grow():
    index = index_of([])
    for round in range(30):
        index.add([Snippet(f's{round}', f'word{round} other{round}')])
        index.search(f'word{round}?', 1)
        index.remove([f's{round}'])
    assert not index._pairs._vectors._rows
