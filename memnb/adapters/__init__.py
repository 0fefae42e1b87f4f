"""Other people's stores, frameworks and models.

stores        SQLite, pandas, Qdrant, LangChain, LlamaIndex, LangGraph, mem0, graphiti
frameworks    the tools of a memory for function calling; its lesson has LangChain and LangGraph
turn_store    turns in a SQLite file that processes share
mcp_server    the tools of an assistant over that file
"""
