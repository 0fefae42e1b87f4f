"""The record of written replies: a replay gives the rows that are shipped, and the questions and writers follow from the seed."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / 'bench'))

import written_replies as written

HELD = json.loads(written.ROWS.read_text(encoding='utf-8'))


def test_the_questions_are_those_that_the_seed_draws():
    talks = {talk.id: talk for talk in written.load_octet('test')}
    assert HELD['questions'] == {name: written.drawn(talks[name]) for name in written.CONVERSATIONS}


def test_a_writer_has_one_question_of_each_conversation():
    dialogues = written.writers(written.plan())
    assert all([name for name, _, _ in three] == list(written.CONVERSATIONS) for three in dialogues)
    asked = {(name, way, question.position) for three in dialogues for name, way, question in three}
    assert len(asked) == len(written.CONVERSATIONS) * len(written.WAYS) * written.QUESTIONS == 3 * len(dialogues)


def test_a_replay_gives_the_rows_and_dialogues_of_a_conversation():
    found = json.loads(json.dumps(written.replayed(['chat'])))
    for key in ('rows', 'built'):
        assert found[key] == [row for row in HELD[key] if row['conversation'] == 'chat']
    assert found['traces'] == HELD['traces']
