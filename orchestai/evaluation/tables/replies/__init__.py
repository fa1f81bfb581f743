"""Tables whose replies are programs: run against tests, of which a cascade sees the first."""
