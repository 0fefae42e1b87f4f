"""Other people's stores, frameworks and models.

stores        SQLite, pandas, Qdrant, LangChain, LlamaIndex, LangGraph, mem0, graphiti
frameworks    LangChain retriever, LangGraph graph, function calling
mcp_server    a memory for an assistant
"""
