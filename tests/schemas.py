"""The objects of a JSON schema."""


def objects_in(node):
    if isinstance(node, dict):
        if isinstance(node.get('properties'), dict) and node.get('type') == 'object':
            yield node
        for value in node.values():
            yield from objects_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from objects_in(value)
