"""Function calling: schemas that servers take."""

import json

import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator

from memnb.mragent.graph import CueTagGraph
from memnb.adapters.frameworks import as_functions
from memnb.remem.graph import GistGraph
from memnb.core.tools import Tool, tools_of
from test_tools import functions, valid_calls


@settings(max_examples=30)
@given(functions(), st.data())
def test_what_the_schema_allows_the_tool_takes_and_null_is_the_default(made, data):
    function, told = made
    call, given_to = data.draw(valid_calls(told))
    (one,) = as_functions([function])
    assert one == Tool.of(function).schema() == json.loads(json.dumps(one))
    Draft202012Validator(one['function']['parameters']).validate(call)
    for name, (kind, default, _) in told.items():
        if default is not ... and (name not in call or data.draw(st.booleans())):
            call[name], given_to[name] = None, None if kind in (int | None, bool | None) else default
    assert Tool.of(function)(**call).line == repr({name: given_to[name] for name in told})


@pytest.mark.parametrize('graph', [GistGraph, CueTagGraph])
def test_the_tools_of_the_graphs_fit_what_servers_take(graph):
    memory = graph()
    made = as_functions(memory)
    assert made == as_functions(tools_of(memory)) and len(made) == sum(not tool.ends for tool in tools_of(memory))
    for one in made:
        assert len(one['function']['description']) <= 1024
        Draft202012Validator.check_schema(one['function']['parameters'])


@pytest.mark.parametrize('source', [None, 3, 'search', object()])
def test_what_has_no_tools_is_refused(source):
    with pytest.raises(TypeError):
        as_functions(source)
