"""What clients send, in OpenAI's formats, and what it asks for."""
