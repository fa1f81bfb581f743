"""The orchestrator behind one endpoint that clients of OpenAI's API talk to."""
