"""Numbers in words, by a speller that shares nothing with the reader."""

SMALL = (
    'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen '
    'eighteen nineteen'
).split()
TENS = 'twenty thirty forty fifty sixty seventy eighty ninety'.split()


def in_words(number: int, link: str = ' ') -> str:
    "A number below a million in words."
    if number < 20:
        return SMALL[number]
    if number < 100:
        return TENS[number // 10 - 2] + (f'-{SMALL[number % 10]}' if number % 10 else '')
    unit, name = (100, 'hundred') if number < 1000 else (1000, 'thousand')
    return f'{in_words(number // unit, link)} {name}' + (
        f'{link}{in_words(number % unit, link)}' if number % unit else ''
    )
