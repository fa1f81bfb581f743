"""What passes between processes: messages, values, objects, arrays, states of generators, and what is printed."""
