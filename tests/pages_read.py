"""A page as a browser reads it, for tests that look at what is shown."""

from html.parser import HTMLParser

VOID = {'area', 'base', 'br', 'col', 'embed', 'hr', 'img', 'input', 'link', 'meta', 'source', 'track', 'wbr'}


class Page(HTMLParser):
    """The tags and texts of a page. What opens is closed, in order, and no attribute stands twice in a tag."""

    def __init__(self, page: str):
        super().__init__()
        self.tags, self.closed = (
            [],
            [],
        )  # (name, attributes) of what opens; (name, how many tags stand before) of what closes
        self.text, self.words, self.odd = (
            '',
            '',
            [],
        )  # all text; the text that is shown; comments, instructions and declarations
        self.open = []
        self.feed(page)
        self.close()
        assert not self.open, f'{self.open} are not closed'

    names = property(lambda self: [name for name, _ in self.tags])
    attributes = property(lambda self: {name for _, attributes in self.tags for name in attributes})

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        assert len(self.tags[-1][1]) == len(attributes), f'{tag} has an attribute twice'
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        self.closed.append((tag, len(self.tags)))
        assert self.open and self.open.pop() == tag, f'{tag} closes what it did not open'

    def handle_data(self, data):
        self.text += data
        self.words += '' if self.open and self.open[-1] in ('style', 'script') else data

    def handle_comment(self, data):
        self.odd.append(data)

    handle_pi = handle_decl = unknown_decl = handle_comment


def squeezed(text: str) -> str:
    """Without any white space, so that wrapping makes no difference."""
    return ''.join(text.split())
