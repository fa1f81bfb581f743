"""The HTTP side: requests in OpenAI's formats become runs, and runs become replies."""
