"""Words, sentences, names and languages of other scripts than English has."""

import json
from pathlib import Path

import pytest

from memnb import MemR3
from memnb.core.conversation import chunk_snippets, Session, Snippet, Turn, turn_snippets
from memnb.core.messages import as_conversation
from memnb.core.roles import RuleLM, Usage
from memnb.core.text import detect_language, named_in, sentences, tokenize
from memnb.evaluation.datasets import load_sample
from memnb.mragent.prompts import SEGMENT, UNITS
from memnb.remem.prompts import GISTS, PAPER_GISTS
from memnb.retrieval.bm25 import BM25Retriever, LexicalIndex
from memnb.retrieval.hybrid import HybridIndex
from memnb.rules.text import keywords

DATA = Path(__file__).parents[2] / 'data' / 'languages.json'
TALKS = json.loads(DATA.read_text(encoding='utf-8'))['talks']


def turns_of(language):
    "The turns of one of the conversations in ten languages."
    messages = [
        {'speaker': speaker, 'text': text, 'time': session['time'], 'session': session['id']}
        for session in TALKS[language]['sessions']
        for speaker, text in session['turns']
    ]
    return turn_snippets(as_conversation(messages, language))


def filled(index, texts):
    index.add([Snippet(f's{number}', text) for number, text in enumerate(texts)])
    return index


def found(index, query):
    return [hit.snippet.text for hit in index.search(query, 3)]


@pytest.mark.parametrize(
    'text, words',
    [
        ('हिन्दी में लिखा', ['हिन्दी', 'में', 'लिखा']),
        ('মানুষ', ['মানুষ']),
        ('பூனை, நாய்', ['பூனை', 'நாய்']),
        ('مُدَرِّس', ['مُدَرِّس']),
        ('می\u200cروم', ['میروم']),  # the joiner is no letter
        ('ක්\u200dෂණය', ['ක්ෂණය']),
        ('סֵפֶר', ['סֵפֶר']),
        ('Ёлка елка', ['елка', 'елка']),  # people write both
        ('İstanbul istanbul', ['istanbul', 'istanbul']),
        ('1️⃣ ❤️ naïve', ['1', 'naïv']),  # the marks of pictures are none of a word
    ],
)
def test_marks_and_joiners_stay_with_their_letters(text, words):
    assert tokenize(text) == words


@pytest.mark.parametrize(
    'text, words',
    [
        ('ビスケット', ['ビス', 'スケ', 'ケッ', 'ット']),
        ('강아지가 왔다', ['강아', '아지', '지가', '왔다']),
        ('ที่นี่', ['ที่นี่']),  # two clusters
        ('ສະບາຍ', ['ສະ', 'ະບ', 'บາ'.replace('บ', 'ບ'), 'າຍ']),
        ('ภาษา', ['ภา', 'าษ', 'ษา']),
        ('買いiPhone15個', ['買い', '買', 'iphone15', '個']),
    ],
)
def test_runs_without_blanks_are_parted_into_bigrams(text, words):
    assert tokenize(text) == words


def test_a_han_character_is_a_word_too():
    index = filled(LexicalIndex(), ['我养了一只橘猫。', '天气很好。', '我们去游泳。'])
    assert found(index, '猫在哪里？') == ['我养了一只橘猫。']


@pytest.mark.parametrize(
    'text, parts',
    [
        ('你好！今天很热。我们去游泳吧？！好', ['你好！', '今天很热。', '我们去游泳吧？！', '好']),
        ('「行こう。」彼は言った。', ['「行こう。」', '彼は言った。']),
        ('वह आया। फिर गया।', ['वह आया।', 'फिर गया।']),
        ('هل وجدت شقة؟ نعم. غدا', ['هل وجدت شقة؟', 'نعم.', 'غدا']),
        ('Привет. Это я.', ['Привет.', 'Это я.']),
        ('Vamos. ¿Vienes? Él no.', ['Vamos.', '¿Vienes?', 'Él no.']),
        ('Er kommt am 15. Juli. Sie nicht.', ['Er kommt am 15. Juli.', 'Sie nicht.']),
        ('Zum 50. Geburtstag kam er im 19. Jahr.', ['Zum 50. Geburtstag kam er im 19. Jahr.']),
        ('Ich bin 15. Du bist 20.', ['Ich bin 15.', 'Du bist 20.']),
        ('I am 15. Then I left.', ['I am 15.', 'Then I left.']),
        ('Meet him at 3 p.m. in town.', ['Meet him at 3 p.m. in town.']),
        ('Τι κάνεις; Καλά. Εσύ;', ['Τι κάνεις;', 'Καλά.', 'Εσύ;']),
        ('ሰላም ነው። እንዴት ነህ፧ ደህና', ['ሰላም ነው።', 'እንዴት ነህ፧', 'ደህና']),
        ('M. Dupont est là. Mme Martin aussi.', ['M. Dupont est là.', 'Mme Martin aussi.']),
    ],
)
def test_sentences_end_as_their_script_ends_them(text, parts):
    assert sentences(text) == parts


@pytest.mark.parametrize(
    'text, names, named',
    [
        ('小红的狗叫什么？', ['小红', '小明'], ('小红',)),
        ('小明在哪里跑步？', ['王小明', '李红'], ('王小明',)),
        ('花子の犬は？', ['花子', '太郎'], ('花子',)),
        ('지민이는 어디로 갔나요?', ['지민', '현우'], ('지민',)),
        ('ฟ้าทำงานที่ไหน', ['ฟ้า', 'ต้น'], ('ฟ้า',)),
        ('ما اسم كلب سارة؟', ['سارة', 'أحمد'], ('سارة',)),
        ('ماذا قال لليلى؟', ['ليلى', 'عمر'], ('ليلى',)),
        ('सीता कहाँ है?', ['सीता', 'राम'], ('सीता',)),
        ('Wo ist Annas Hund?', ['Anna', 'Ben'], ('Anna',)),
        ('Где собака Оли?', ['Оля', 'Дима'], ('Оля',)),
        ('Где живёт Алёна?', ['Алена', 'Дима'], ('Алена',)),
        ('where does ann live?', ['Ann', 'Ben'], ('Ann',)),
        ('Where does ann live?', ['Ann', 'Ben'], ('Ann',)),
        ('what will we get?', ['Will', 'Ben'], ()),
        ('When did Ben mark the exam?', ['Mark', 'Ben'], ('Ben',)),
        ('When did the Smiths mark the exam?', ['Mark', 'Ben'], ()),
        ('to bin it', ['Tobin'], ()),
    ],
)
def test_names_are_found_in_scripts_without_capitals_and_in_small_letters(text, names, named):
    assert named_in(text, names) == named


def test_the_keywords_of_a_question_are_words_of_its_script():
    assert keywords('हिन्दी किताब') == ('हिन्दी', 'किताब')
    assert '鞋子' in keywords('饼干什么时候咬坏了鞋子？')


@pytest.mark.parametrize(
    'language, name',
    [
        ('de', 'german'),
        ('fr', 'french'),
        ('es', 'spanish'),
        ('ru', 'russian'),
        ('ar', 'arabic'),
        ('hi', 'hindi'),
        ('zh', 'english'),  # runs are not stemmed, and the Latin words among them are mostly English
    ],
)
def test_the_language_is_detected_over_the_whole_conversation(language, name):
    turns = turns_of(language)
    assert detect_language(' '.join(turn.text for turn in turns)) == name
    grown = LexicalIndex()
    for turn in turns:  # one by one, with searches between
        grown.add([turn])
        grown.search(turn.text)
    anew = filled(LexicalIndex(), [])
    anew.add(reversed(turns))
    query = TALKS[language]['questions'][1]['question']
    assert grown.scores(query) == anew.scores(query) and grown.language == anew.language == name
    grown.remove([turn.id for turn in turns])
    grown.add([Snippet('hello', 'Hallo')])
    grown.search('Hallo')
    assert grown.language == 'english'


@pytest.mark.parametrize('text', ['', 'Hallo', 'red boat blue sea kite storm', '42 1999', ':-) 🙂'])
def test_english_is_assumed_where_little_is_said(text):
    assert detect_language(text) == 'english'


def test_english_stays_english():
    for turn in turn_snippets(load_sample()):
        assert detect_language(turn.text * 3) == 'english'


def test_a_language_without_a_stemmer_is_not_stemmed():
    text = 'Tôi vừa chuyển đến căn hộ mới ở gần chợ Bến Thành. Tuần trước con mèo của tôi bị ốm nên tôi phải nghỉ làm hai ngày để chăm nó.'
    assert detect_language(text) == 'none'
    assert tokenize('Tôi me an', 'none') == ['tôi', 'me', 'an']


def test_words_are_matched_by_the_stemmer_of_their_language():
    texts = ['Sie wohnten in vielen Häusern.', 'Es regnet.', 'Die Blaskapelle kommt.']
    index = filled(LexicalIndex(language='german'), texts)
    assert found(index, 'Wer wohnte in diesem Haus?') == texts[:1] and found(index, 'Welche Kapelle?') == texts[2:]
    assert found(filled(LexicalIndex(), texts), 'Welche Kapelle?') == []  # too little to know that it is German
    assert tokenize('Was haben die Kinder?', 'german') == ['kind']
    with pytest.raises(KeyError, match='klingon'):
        LexicalIndex(language='klingon')
    assert HybridIndex(language='german').lexical.language == 'german'


def test_a_score_by_words_is_never_below_nought():
    texts = ['red apple', 'red apple apple', 'red', 'green pear']
    index = filled(LexicalIndex(), texts[:3])
    assert found(index, 'red apple')[-1] == 'red' and min(index.scores('red apple').values()) > 0
    for store in (['Biscuit is ill', 'Biscuit is well', 'Biscuit sleeps'], ['a kite', 'a boat']):
        scores = filled(LexicalIndex(), store).scores(store[0])
        assert min(scores.values()) > 0 and max(scores, key=scores.get) == 's0'
    exact = filled(LexicalIndex(exact=True), texts[:3]).scores('red apple')
    assert exact == pytest.approx(
        BM25Retriever([Snippet(f's{n}', text) for n, text in enumerate(texts[:3])]).scores('red apple')
    )
    assert max(exact.values()) < 0


def test_chunks_and_estimates_count_characters_where_there_are_no_blanks():
    def chunks(text):
        return list(chunk_snippets(as_conversation([{'speaker': 'A', 'text': f'{text}{n}'} for n in range(40)]), 96))

    chinese = chunks('我们今天去公园散步然后在湖边的小餐馆吃了午饭，菜很好吃，价格也不贵。')
    assert 10 < len(chinese) < 30 and max(len(chunk.text) for chunk in chinese) < 200
    assert Usage.estimate('我' * 400, '').prompt_tokens == 300
    assert Usage.estimate('a' * 400, 'b').prompt_tokens == 100


def test_rules_say_that_they_know_english_only():
    talk = ['小红: 我们今天收养了一只小狗，名字叫饼干。', '小明: 哈哈']
    with pytest.warns(UserWarning, match='rules know English only'):
        trace = MemR3(talk).ask('小红的狗叫什么名字？')
    assert any('English only' in note for step in trace.steps for note in getattr(step, 'notes', ()))
    assert '饼干' in trace.answer
    german = [f'{turn.speaker}: {turn.text}' for turn in turns_of('de')]
    with pytest.warns(UserWarning, match='rules know English only'):
        MemR3(german).ask('Welches Instrument spielt Jonas?')


def test_rules_say_nothing_of_an_english_conversation(recwarn):
    sample = load_sample()
    for question in sample.questions[:5]:
        trace = MemR3(sample, lm=RuleLM()).ask(question.text)
        assert not any('English only' in note for step in trace.steps for note in getattr(step, 'notes', ()))
    assert not [warning for warning in recwarn if 'English' in str(warning.message)]


@pytest.mark.parametrize('language', sorted(TALKS))
def test_evidence_is_found_by_words_in_ten_languages(language):
    index = HybridIndex(None)
    index.add(turns_of(language))
    ranks = [
        [hit.snippet.id for hit in index.search(question['question'], 3)] for question in TALKS[language]['questions']
    ]
    hits = [set(ids) & set(question['evidence']) for ids, question in zip(ranks, TALKS[language]['questions'])]
    # 'Combien Julien a payé sa moto ?' shares no word with the turn
    assert sum(map(bool, hits)) >= (15 if language in ('fr', 'ru') else 16)


def test_prompts_ask_for_memories_in_the_language_of_the_session():
    for language in ('zh', 'de', 'en'):
        texts = [turn.text for turn in turns_of(language)] if language in TALKS else ['We had the first lesson of it.']
        turns = tuple(Turn(f'D1:{number}', 'A', text) for number, text in enumerate(texts))
        for role in (GISTS, PAPER_GISTS, SEGMENT, UNITS):
            system, _ = role.render({'session': Session('D1', turns)})
            assert ('English' in system) == (language == 'en')
            assert ('in the language of the session' in system) == (language != 'en')


def test_a_question_for_a_number_is_known_in_other_languages():
    index = HybridIndex(None)
    index.add(turns_of('ru'))
    hits = [hit.snippet.id for hit in index.search('Сколько стоило починить Димину машину?', 3)]
    assert 'D1:5' in hits  # 95 тысяч


def test_a_term_in_half_of_a_store_counts():
    index = filled(LexicalIndex(), ['red apple', 'red apple apple', 'red', 'green pear'])
    assert found(index, 'red apple')[-1] == 'red'
