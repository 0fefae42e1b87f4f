"""Conversations in the register of a user with an assistant, made of others: what the ranking of the package is fitted to beside Octet."""

import random
import re
from collections.abc import Sequence
from dataclasses import replace

from memnb.core.conversation import Conversation, Session, Turn
from memnb.core.text import sentences


def _in_first_person(text: str, name: str) -> str:
    "Return a question about somebody as that person would ask it, as far as the name goes."
    names = '|'.join(re.escape(word) for word in (name, name.split()[0]))
    text = re.sub(rf"\b(?:{names})['’]s\b", 'my', text)
    return re.sub(rf'\b(?:{names})\b', 'I', text)


def as_assistant_chat(
    conversation: Conversation,
    user: str,  # the speaker who becomes the user
    filler: Sequence[str],  # sentences for the replies
    seed: str = '',
    echo: float = 0.35,  # the part of the sentences of a reply that are the message's own
) -> Conversation:
    """Return what one speaker says in the register of a user with an assistant, with the questions about it in the first person.

    Up to four turns of the user are one message. A reply of 350 to 650 words follows, which says much and means
    nothing: it is there so that a ranking learns what a long message is not worth. Other speakers are left out."""
    chance = random.Random(f'{seed} {conversation.id} {user}')
    messages: dict[str, str] = {}  # turn -> the message that it became a part of
    sessions = []
    for session in conversation.sessions:
        own, turns = [turn for turn in session.turns if turn.speaker == user], []
        while own:
            count = chance.randint(1, 4)
            joined, own = own[:count], own[count:]
            id, text = f'{session.id}:{len(turns)}', ' '.join(turn.content for turn in joined)
            messages.update((turn.id, id) for turn in joined)
            said, reply, length = sentences(text), [], chance.randint(350, 650)
            while sum(len(sentence.split()) for sentence in reply) < length:
                reply.append(chance.choice(said if said and chance.random() < echo else filler))
            turns += [Turn(id, 'User', text), Turn(f'{session.id}:{len(turns) + 1}', 'Assistant', ' '.join(reply))]
        if turns:
            sessions.append(Session(session.id, tuple(turns), session.time))
    name = f'{conversation.id}-{user}{seed}'
    questions = []
    for question in conversation.questions:
        if question.evidence and not question.refuse and set(question.evidence) <= messages.keys():
            evidence = tuple(dict.fromkeys(messages[turn] for turn in question.evidence))
            text = _in_first_person(question.text, user)
            questions.append(replace(question, text=text, evidence=evidence, conversation=name))
    return Conversation(name, tuple(sessions), tuple(questions))


def assistant_chats(conversations: Sequence[Conversation]) -> list[Conversation]:
    "Return two conversations or more in the register of `as_assistant_chat`, with each speaker as the user in turn, three times."
    chats = []
    for seed, echo in ((1, 0.35), (2, 0.35), (3, 0.0)):
        for conversation in conversations:
            others = [other for other in conversations if other is not conversation]
            turns = [turn.content for other in others for turn in other.turns]
            filler = turns if not echo else [sentence for turn in turns for sentence in sentences(turn)]
            for speaker in conversation.speakers:
                chat = as_assistant_chat(conversation, speaker, filler, f'-{seed}', echo)
                chats += [chat] if chat.questions else []
    return chats
