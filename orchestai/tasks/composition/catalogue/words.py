"""Operations on lists of words."""

from orchestai.tasks.composition.operation import Operation, not_empty, unary

OPERATIONS: tuple[Operation, ...] = (
    unary(
        "words",
        "words",
        "sort_words",
        "the sorted words",
        "sorted(x)",
        {
            "sort its words alphabetically": ["pear", "fig", "apple"],
            "put its strings in alphabetical order": ["red", "blue", "green"],
            "order the words in it from A to Z": ["to", "be", "or"],
            "arrange its strings in dictionary order": ["moon", "cat"],
        },
    ),
    unary(
        "words",
        "words",
        "sort_by_length",
        "the words by length",
        "sorted(x, key=len)",
        {
            "sort its words by length, shortest first": ["pear", "fig", "apple"],
            "order its strings from shortest to longest, keeping ties in order": ["green", "blue", "red", "old"],
            "arrange the words in it by how many letters they have, fewest first": ["to", "tea", "a"],
            "put the shorter words in it before the longer ones": ["moon", "cat"],
        },
    ),
    unary(
        "words",
        "words",
        "upper_words",
        "the upper-case words",
        "[w.upper() for w in x]",
        {
            "convert each of its words to upper case": ["pear", "Fig"],
            "make every string in it all capitals": ["red", "blue"],
            "write all words in it in uppercase": ["to", "be", "or"],
            "turn each string of it into capital letters": ["moon"],
        },
    ),
    unary(
        "words",
        "words",
        "reverse_words",
        "the reversed words",
        "[w[::-1] for w in x]",
        {
            "reverse each of its words": ["pear", "fig"],
            "spell every string in it backwards": ["red", "blue", "owl"],
            "reverse the letters of each word in it, leaving the words in place": ["to", "bed"],
            "turn each string of it around": ["moon"],
        },
    ),
    unary(
        "words",
        "int",
        "count_items",
        "the number of words",
        "len(x)",
        {
            "count the strings in it": ["pear", "fig"],
            "find how many words the list has": ["red", "blue", "owl"],
            "take the number of strings it holds": ["to", "bed", "a", "b"],
            "compute how many entries the list of words has": ["moon"],
        },
    ),
    unary(
        "words",
        "str",
        "join_words",
        "the joined words",
        "' '.join(x)",
        {
            "join its words with spaces": ["pear", "fig"],
            "make one string of its words with a space between them": ["red", "blue", "owl"],
            "connect its strings into a sentence, separated by blanks": ["to", "be"],
            "concatenate the words in it with single spaces": ["old", "moon", "x"],
        },
    ),
    unary(
        "words",
        "str",
        "longest_word",
        "the longest word",
        "max(x, key=len, default='')",
        {
            "find its longest word, the first one if several are": ["fig", "pear", "plum"],
            "pick the string in it with the most letters, first of equals": ["red", "green", "owl"],
            "take the longest of its strings, the earliest on a tie": ["to", "bed"],
            "return the first word in it that has the greatest length": ["a", "moon", "x"],
        },
        domain=not_empty,
    ),
    unary(
        "words",
        "ints",
        "lengths",
        "the lengths",
        "[len(w) for w in x]",
        {
            "list the length of each string in it": ["pear", "fig"],
            "replace each word in it by its number of letters": ["red", "blue", "owl"],
            "make a list of how many characters each of its strings has": ["to", "apple"],
            "map its words to their lengths, as a list": ["old", "moon", "x"],
        },
    ),
    unary(
        "words",
        "dict",
        "word_to_length",
        "the table of lengths",
        "{w: len(w) for w in x}",
        {
            "make a dictionary from each of its words to the word's length": ["pear", "fig"],
            "map every string in it to its number of characters, as a dictionary": ["red", "blue", "red"],
            "build a dictionary with its words as keys and their lengths as values": ["to", "apple"],
            "create a dictionary that gives the length of each word in it": ["old", "moon", "x"],
        },
    ),
)
