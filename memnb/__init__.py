"""memnb: methods by which LLM agents remember. Names are imported on first use, so that `import memnb` costs nothing."""
__version__ = '0.1.0'
