"""Models and embedders of LangChain and LlamaIndex, given to memnb as they are."""

import pytest

from memnb.core.conversation import Snippet
from memnb.core.models import as_lm, ModelFailed
from memnb.core.roles import ANSWER, AnswerReply
from memnb.retrieval.vectors import DenseIndex

SAID = '{"answer": "8 January 2024", "sources": ["D1:5"]}'
REPLY = AnswerReply(answer='8 January 2024', sources=['D1:5'])


def langchain_model():
    models = pytest.importorskip('langchain_core.language_models.fake_chat_models')
    return models.FakeListChatModel(responses=[SAID])


def llamaindex_model():
    llms = pytest.importorskip('llama_index.core.llms')

    class Fixed(llms.MockLLM):
        def complete(self, prompt, formatted=False, **options):
            assert 'Who?' in prompt
            return llms.CompletionResponse(text=SAID)

    return Fixed()


@pytest.mark.parametrize('make', [langchain_model, llamaindex_model])
def test_a_model_of_another_library_answers_roles(make):
    model = make()
    lm = as_lm(model)
    assert lm.ask(ANSWER, question='Who?') == REPLY
    assert lm.name == type(model).__name__ and as_lm(make(), 'mine').settings() == {'model': 'mine'}


def test_its_failure_is_its_own():
    messages = pytest.importorskip('langchain_core.language_models.fake_chat_models')
    with pytest.raises(ModelFailed, match='^FakeListChatModel: IndexError: '):
        as_lm(messages.FakeListChatModel(responses=[])).ask(ANSWER, question='Who?')


def test_a_chain_of_langchain_gives_a_dictionary():
    from_function = pytest.importorskip('langchain_core.runnables').RunnableLambda
    assert (
        as_lm(from_function(lambda prompt: {'answer': '8 January 2024', 'sources': ['D1:5']})).ask(
            ANSWER, question='Who?'
        )
        == REPLY
    )


def langchain_embedder():
    return pytest.importorskip('langchain_core.embeddings').DeterministicFakeEmbedding(
        size=4
    ), 'DeterministicFakeEmbedding'


def llamaindex_embedder():
    return pytest.importorskip('llama_index.core.embeddings').MockEmbedding(
        embed_dim=4, model_name='org/toy'
    ), 'MockEmbedding toy'


@pytest.mark.parametrize('make', [langchain_embedder, llamaindex_embedder])
def test_an_embedder_of_another_library_embeds(make):
    embedder, name = make()
    index = DenseIndex(embedder)
    index.add([Snippet('a', 'boat'), Snippet('b', 'sea')])
    assert (index.model, index.dimension, index.search('boat')[0].score) == (name, 4, pytest.approx(1, abs=1e-6))
