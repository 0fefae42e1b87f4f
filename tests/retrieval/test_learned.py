"""The learned ranking: features against their definitions and bounds, the fit against its derivative, damage, forgetting."""

import math
import pickle
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fakes import Letters
from memnb.core.conversation import Conversation, Question, Session, Snippet, Turn
from memnb.core.text import _Cache, tokenize
from memnb.retrieval.bm25 import LexicalIndex
from memnb.retrieval.features import ENOUGH, FEATURES, SHARES, WordVectors
from memnb.retrieval.hybrid import HybridIndex
from memnb.retrieval.learned import fit_ranker, fit_weights, LearnedRanker, Pair, shipped_ranker, training_pairs
from memnb.retrieval.vectors import DenseIndex, WordLlamaEmbedder

WORDS = 'boat sea red blue sail harbour storm the a Ana running three yesterday I my why? 2021 Zita'.split()
texts = st.lists(st.sampled_from(WORDS), max_size=8).map(' '.join)
NOTHING = LearnedRanker({})
PLACE = {name: place for place, name in enumerate(FEATURES)}


@st.composite
def talks(draw, max_size=14, speakers=('Ana', 'Ben', None)):
    """Turns of three sessions by Ana, Ben and nobody, some a place apart."""
    made = []
    for number in draw(st.lists(st.integers(0, 30), unique=True, max_size=max_size)):
        speaker = draw(st.sampled_from(speakers))
        said, session = datetime(2021, 5, 1 + number % 3), f'd{number % 3}'
        id = f's{number}'
        made.append(Snippet(id, draw(texts), (id,), None, speaker, said, session, number // 3))
    return made


def between(values):
    """The values between 0 and 1, the least and the greatest."""
    low, high = min(values.values(), default=0), max(values.values(), default=0)
    return {id: (value - low) / (high - low) if high > low else 0 for id, value in values.items()}


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
    lexical = LexicalIndex()
    lexical.add(snippets)
    bm25 = lexical.scores(query)
    dense = DenseIndex(Letters(), names=['Ana', 'Ben'])
    dense.add(snippets)
    cosines = dense.scores(query)
    at = {(one.session, one.position): one for one in snippets}
    asked = {name for name in ('Ana', 'Ben') if name in query.split() and any(one.speaker == name for one in snippets)}
    topic = {*tokenize(query)} - {one.speaker.lower() for one in snippets if one.speaker}
    held = {one.id: {*tokenize(f'{one.speaker or ""} {one.text}')} for one in snippets}

    def idf(term):
        return math.log((len(snippets) + 1) / (sum(term in terms for terms in held.values()) + 0.5))

    def neighbours(one):
        return {step: at.get((one.session, one.position + step)) for step in SHARES}

    def summed(values, one):
        beside = [
            share * values.get(neighbours(one)[step].id, 0) for step, share in SHARES.items() if neighbours(one)[step]
        ]
        return values.get(one.id, 0) + sum(beside)

    words = between({one.id: summed(bm25, one) for one in snippets})
    meaning = between(cosines)
    total = {id: words[id] + 0.5 * meaning[id] for id in words}
    of_sessions = {}
    for session in ('d0', 'd1', 'd2'):
        best = sorted(total[one.id] for one in snippets if one.session == session)[-3:]
        of_sessions |= {one.id: sum(best) / 3 for one in snippets if one.session == session}
    of_sessions = between(of_sessions)
    for one in snippets:
        row = got[one.id]
        beside = neighbours(one)
        before, after = beside[-1], beside[1]
        assert row['spread'] == pytest.approx(words[one.id], abs=1e-9)
        assert row['meaning'] == pytest.approx(meaning[one.id], abs=1e-6)
        assert row['meaning_before'] == pytest.approx(meaning[before.id] if before else 0, abs=1e-6)
        assert row['session'] == pytest.approx(of_sessions[one.id], abs=1e-6)
        assert row['speaker'] == (one.speaker in asked) and row['role'] == 0
        assert row['question'] == ('?' in one.text)
        assert row['speaker_meaning'] == pytest.approx(row['speaker'] * row['meaning'])
        assert row['speaker_likeness'] == pytest.approx(row['speaker'] * row['likeness'])
        assert row['after_question'] == bool(before and '?' in before.text)
        assert row['answered_meaning'] == pytest.approx(row['after_question'] * row['meaning_before'])
        assert row['length'] == pytest.approx(math.log1p(len(one.text.split())))
        around_vector = dense.vector(one.id) + sum(
            SHARES[step] * dense.vector(other.id) for step, other in beside.items() if other
        )
        size = np.linalg.norm(around_vector)
        cosine = summed(cosines, one) / size if size > 0 else 0
        assert row['window'] == pytest.approx(cosine, abs=1e-5)
        if topic:
            weights = {term: idf(term) for term in topic}
            everything = sum(weights.values())
            here, around = (
                {term for term in topic if any(other and term in held[other.id] for other in turns)}
                for turns in ([one], [one, before, after])
            )
            part, most = (sum(weights[term] for term in terms) / everything for terms in (here, around))
            # a like word counts less than the same
            assert part - 1e-6 <= row['likeness'] <= part + 0.4 * (1 - part) + 1e-6
            assert most - 1e-6 <= row['likeness_near'] <= most + 0.4 * (1 - most) + 1e-6
        else:
            assert row['likeness'] == row['likeness_near'] == 0
        evidence = [id for id in dict.fromkeys(known) if id in got]
        near = [float(dense.vector(one.id) @ dense.vector(id)) for id in evidence]
        assert row['evidence_nearest'] == pytest.approx(max(near, default=0), abs=1e-5)
        assert row['evidence_mean'] == pytest.approx(np.mean(near) if near else 0, abs=1e-5)
        assert row['evidence_next'] == any(other and other.id in evidence for other in (before, after))
        assert row['evidence_near'] == any(other and other.id in evidence for other in (beside[-2], beside[2]))


# of a turn of one passage: those that no other turn changes, and those that say no more where the turn says it again
ALONE = {
    *('speaker', 'role', 'window', 'length', 'question', 'after_question', 'number_asked', 'time_asked'),
    *('evidence_mean', 'evidence_nearest', 'evidence_next', 'evidence_near'),
}
SAID_AGAIN = {'likeness', 'speaker_likeness', *ALONE} - {'length', 'window'}
roles = st.sampled_from([('Ana', 'Ben', None), ('User', 'Assistant'), ('Ana', 'Assistant'), (None,)])


def assert_bounded(rows):
    """No feature is beyond 1, but the logarithm of the number of words, which has a bound of its own."""
    for id, row in rows.items():
        for name, value in row.items():
            assert np.isfinite(value) and abs(value) <= (math.log1p(ENOUGH) if name == 'length' else 1) + 1e-6, (
                id,
                name,
            )


@settings(max_examples=40)
@given(
    roles.flatmap(lambda speakers: talks(speakers=speakers)), texts, st.integers(1, 60), st.integers(1, 80), st.data()
)
def test_no_feature_grows_with_a_turn_or_with_the_store(snippets, query, times, more, data):
    known = data.draw(st.lists(st.sampled_from([one.id for one in snippets] + ['unknown']), max_size=3))
    for embedder in (Letters(), None):
        for words in (None, 3, 80):
            rows = index_of(snippets, embedder=embedder, words=words).features(query, known)[1]
            assert rows.shape[1] == len(FEATURES) and (words is None or len(rows) <= len(snippets))
        plain = table(index_of(snippets, embedder=embedder), query, known)
        assert_bounded(plain)
        if not snippets:
            continue
        chosen = data.draw(st.sampled_from(snippets))
        rest = [one for one in snippets if one is not chosen]
        again = [replace(chosen, text=' '.join([chosen.text] * min(times, 9))), *rest]
        said = table(index_of(again, embedder=embedder), query, known)
        assert_bounded(said)
        long = [replace(chosen, text=' '.join([chosen.text] * times)), *rest]
        assert_bounded(table(index_of(long, embedder=embedder), query, known))
        unrelated = [
            Snippet(f'x{number}', f'violoncello {number}', (), None, chosen.speaker, None, 'other', 3 * number)
            for number in range(more)
        ]
        grown = table(index_of([*snippets, *unrelated], embedder=embedder), query, known)
        assert_bounded(grown)
        for one in snippets:
            if one.id in plain and one.id in grown and chosen.speaker:
                for name in ALONE:
                    assert grown[one.id][name] == pytest.approx(plain[one.id][name], abs=1e-6), name
        if chosen.id in plain:
            for name in SAID_AGAIN:
                assert said[chosen.id][name] == pytest.approx(plain[chosen.id][name], abs=1e-5), name


@pytest.mark.parametrize(
    'query, feature, marked',
    [
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
@given(snippets=talks(), query=texts, k=st.integers(1, 14), seen=st.integers(1, 14), data=st.data())
def test_every_hit_says_why_and_the_first_stage_follows_what_the_ranker_saw(snippets, query, k, seen, data):
    ranker = LearnedRanker(
        {
            name: data.draw(st.sampled_from([-1.0, 0.0, 0.5, 2.0]))
            for name in ('spread', 'speaker', 'question', 'length', 'likeness')
        }
    )
    index = index_of(snippets, ranker, seen=seen)
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
        pairs.append(Pair(rows, share / share.sum(), random.choice([0.3, 1.0])))
    spread = np.concatenate([pair.rows for pair in pairs]).std(0)
    weights = fit_weights(pairs, ridge)

    def value(weights):
        total = -ridge / 2 * np.sum((weights * spread) ** 2)
        for pair in pairs:
            scores = pair.rows @ weights
            total += pair.weight * (pair.shares @ scores - math.log(np.exp(scores).sum()))
        return total

    for place in range(3):
        step = np.eye(3)[place] * 1e-4
        assert abs(value(weights + step) - value(weights - step)) / 2e-4 < 1e-5
    again = fit_weights([replace(pair, rows=pair.rows * [1, factor, 1]) for pair in pairs], ridge)
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
    few = fit_ranker([conversation(0)], features=['spread', 'speaker'])
    assert {name for name, weight in few.weights.items() if weight} == {'spread', 'speaker'}
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
    [pair] = training_pairs(talk)
    later = [place for name, place in PLACE.items() if name.startswith('evidence_')]
    assert len(pair.rows) == 12 and sorted(pair.shares)[-2:] == [0.5, 0.5] and not pair.rows[:, later].any()
    # which reads them in their order: after five turns one is left to find, after fifteen none
    [pair] = training_pairs(talk, ranker=NOTHING, weight=0.3)
    assert len(pair.rows) == 7 and pair.shares.tolist() == [0] * 6 + [1] and pair.weight == 0.3
    assert pair.rows[:, PLACE['evidence_nearest']].min() > 0


def test_questions_that_count_less_move_the_weights_less():
    alone = fit_ranker([conversation(0)])
    little, much = (fit_ranker([conversation(0)], chats=[conversation(1)], chat_weight=part) for part in (0.0, 1.0))
    assert little.weights == pytest.approx(alone.weights, rel=0.02, abs=1e-6)
    assert much.weights == fit_ranker([conversation(0), conversation(1)]).weights


def test_without_questions_there_is_nothing_to_fit():
    with pytest.raises(ValueError, match="features: expected some of spread, .*, got 'colour'"):
        fit_ranker([conversation()], features=['colour'])
    with pytest.raises(ValueError, match='expected questions with an answer and evidence, got none'):
        fit_ranker([Conversation('c', conversation().sessions, [])])


@pytest.mark.parametrize(
    'text',
    ['', '[]', '{"weights": 3}', '{"weights": {"colour": 1}}', '{"weights": {"spread": "much"}}', '{"wait": {}}'],
)
def test_what_is_no_ranker_is_refused_with_its_file(tmp_path, text):
    path = tmp_path / 'mine.json'
    path.write_text(text)
    with pytest.raises(ValueError, match='mine.json: expected a ranker that `memnb fit` wrote'):
        LearnedRanker.load(path)
    with pytest.raises(ValueError, match='nowhere.json'):
        LearnedRanker.load(tmp_path / 'nowhere.json')


def test_the_weights_of_words_count_no_vectors():
    counted = {name for name, weight in shipped_ranker(False).weights.items() if weight}
    vectors = {'meaning', 'meaning_before', 'window', 'speaker_meaning', 'answered_meaning', 'evidence_mean'}
    assert counted and not counted & {*vectors, 'evidence_nearest'}
    assert HybridIndex(Letters()).ranker.weights == shipped_ranker().weights
    assert HybridIndex(None).ranker.weights == shipped_ranker(False).weights


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
    assert b'violoncello' in pickle.dumps(list(index._word_vectors._rows))
    assert b'violoncello' in pickle.dumps([dict(cache) for cache in _Cache.all])
    index.remove(['a'])
    index.search('boat', 2)
    caches = [dict(cache) for cache in _Cache.all]
    held = pickle.dumps([list(index._word_vectors._rows), index._snippets, index.lexical._postings, caches])
    assert b'violoncello' not in held and b'boat' in held
    assert list(index._word_vectors._rows) == ['boat']


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
    assert not index._word_vectors._rows
