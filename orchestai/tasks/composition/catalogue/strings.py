"""Operations on strings."""

from orchestai.tasks.composition.operation import Operation, unary

OPERATIONS: tuple[Operation, ...] = (
    unary(
        "str",
        "str",
        "upper",
        "the upper-case text",
        "x.upper()",
        {
            "convert it to upper case": "Red fox",
            "turn all its letters into capitals": "tea at 5",
            "make it all uppercase": "Hello World",
            "change every lower-case letter in it to upper case": "ab",
        },
    ),
    unary(
        "str",
        "str",
        "reverse_text",
        "the reversed text",
        "x[::-1]",
        {
            "reverse its characters": "green",
            "write it backwards": "old hat",
            "put its characters in reverse order": "abc",
            "spell it from the last character to the first": "Lamp 7",
        },
    ),
    unary(
        "str",
        "str",
        "swap_case",
        "the text with swapped case",
        "x.swapcase()",
        {
            "swap the case of its letters": "Big Cat",
            "turn its upper-case letters into lower case and the other way round": "aBc D",
            "flip upper and lower case in it": "Tom",
            "exchange capital and small letters in it": "north Sea",
        },
    ),
    unary(
        "str",
        "str",
        "title_case",
        "the title-case text",
        "x.title()",
        {
            "capitalise the first letter of each word in it": "my old dog",
            "convert it to title case": "the red door",
            "make every word in it start with a capital letter and go on in lower case": "green TEA",
            "write it like a title, each word capitalised": "on time",
        },
    ),
    unary(
        "str",
        "str",
        "spaces_to_underscores",
        "the underscored text",
        "x.replace(' ', '_')",
        {
            "replace its spaces with underscores": "one two three",
            "put an underscore in place of every space in it": "to be or",
            "change each space in it to the character '_'": "a  b",
            "swap every blank in it for an underscore": "red hat",
        },
    ),
    unary(
        "str",
        "str",
        "double_characters",
        "the doubled text",
        "''.join(c * 2 for c in x)",
        {
            "write each of its characters twice": "cat",
            "double every character in it": "a b",
            "repeat each character of it two times": "moon",
            "put every character of it two times in a row": "xyz",
        },
    ),
    unary(
        "str",
        "str",
        "sort_characters",
        "the sorted characters",
        "''.join(sorted(x))",
        {
            "sort its characters": "hello",
            "put the characters of it in ascending order as one string": "Dcba",
            "arrange its characters alphabetically into a string": "cab a",
            "order all of its characters and join them again": "stone",
        },
    ),
    unary(
        "str",
        "int",
        "text_length",
        "the length of the text",
        "len(x)",
        {
            "count its characters": "red fox",
            "compute its length": "hello",
            "find how many characters it has": "to be",
            "take the number of characters in it, spaces included": "a b c d",
        },
    ),
    unary(
        "str",
        "int",
        "count_vowels",
        "the vowel count",
        "sum(c in 'aeiou' for c in x.lower())",
        {
            "count its vowels": "Orange tree",
            "find how many vowels it contains": "hello",
            "count the letters a, e, i, o and u in it, in either case": "An Idea",
            "take the number of vowels in it": "banana split",
        },
    ),
    unary(
        "str",
        "int",
        "count_words",
        "the word count",
        "len(x.split())",
        {
            "count its words": "to be or not",
            "find how many words it has": "red fox",
            "take the number of words in it": "one  two three",
            "compute how many space-separated words it contains": "a new day",
        },
    ),
    unary(
        "str",
        "int",
        "count_capitals",
        "the number of capitals",
        "sum(c.isupper() for c in x)",
        {
            "count its upper-case letters": "Big Red Bus",
            "find how many capital letters it has": "NASA team",
            "take the number of uppercase characters in it": "Hello",
            "count the capitals in it": "aBcD e",
        },
    ),
    unary(
        "str",
        "words",
        "split_words",
        "the words",
        "x.split()",
        {
            "split it into words": "to be or not",
            "make a list of its words": "red  fox runs",
            "break it at spaces into a list of words": "a b",
            "list the words in it": "old grey owl",
        },
    ),
    unary(
        "str",
        "words",
        "long_words",
        "the long words",
        "[w for w in x.split() if len(w) > 3]",
        {
            "list its words that have more than 3 letters": "the quick brown fox",
            "keep only the words in it longer than 3 characters, as a list": "we like tea and cake",
            "make a list of those of its words whose length is above 3": "one three two four",
            "collect the words of it that have at least 4 letters": "big house on hill",
        },
    ),
    unary(
        "str",
        "ints",
        "word_lengths",
        "the word lengths",
        "[len(w) for w in x.split()]",
        {
            "list the lengths of its words": "to be alone",
            "make a list of how long each of its words is": "red house",
            "find the length of every word in it, as a list": "a new day",
            "split it into words and take the length of each": "we like tea",
        },
    ),
    unary(
        "str",
        "dict",
        "count_characters",
        "the character counts",
        """
def step(x):
    counts = {}
    for c in x:
        counts[c] = counts.get(c, 0) + 1
    return counts
""",
        {
            "count how often each character occurs in it, as a dictionary": "hello",
            "make a dictionary from each of its characters to how many times it appears": "a bab",
            "map every character in it to its number of occurrences": "moon",
            "build a dictionary of its character counts": "see me",
        },
    ),
)
