"""Operations that join two values."""

from orchestai.tasks.composition.operation import Operation, binary

OPERATIONS: tuple[Operation, ...] = (
    binary(
        ("int", "int"),
        "int",
        "add",
        "the sum of both",
        "a + b",
        {
            "add the two numbers": (4, 9),
            "compute the sum of both arguments": (-2, 7),
            "add the second argument to the first": (10, 3),
            "take the first number plus the second": (5, 6),
        },
    ),
    binary(
        ("int", "int"),
        "int",
        "subtract",
        "the difference of both",
        "a - b",
        {
            "subtract the second number from the first": (4, 9),
            "compute the first argument minus the second": (7, -2),
            "take how much greater the first number is than the second": (10, 3),
            "reduce the first argument by the second": (5, 6),
        },
    ),
    binary(
        ("int", "int"),
        "int",
        "multiply",
        "the product",
        "a * b",
        {
            "multiply the two numbers": (4, 9),
            "compute the product of both arguments": (-2, 7),
            "take the first number times the second": (10, 3),
            "multiply the first argument by the second": (5, 6),
        },
    ),
    binary(
        ("int", "int"),
        "int",
        "larger",
        "the larger of both",
        "max(a, b)",
        {
            "take the larger of the two numbers": (4, 9),
            "return the maximum of both arguments": (7, -2),
            "pick whichever number is greater": (10, 3),
            "choose the bigger one of the first and the second argument": (5, 6),
        },
    ),
    binary(
        ("str", "str"),
        "str",
        "join_with_colon",
        "the text with a colon",
        "a + ':' + b",
        {
            "join the two strings with a colon": ("red", "fox"),
            "write the first string, a ':' and the second string": ("a b", "7"),
            "concatenate both arguments with ':' between them": ("x", "moon"),
            "put a colon between the first and the second string": ("to", "be"),
        },
    ),
    binary(
        ("str", "int"),
        "str",
        "append_number",
        "the numbered text",
        "a + '#' + str(b)",
        {
            "append '#' and the number to the string": ("red", 5),
            "write the string, then '#', then the number": ("a b", -7),
            "join the first argument and the second with a '#' sign into a string": ("moon", 12),
            "add a hash sign and the second argument to the end of the first": ("to", 0),
        },
    ),
    binary(
        ("str", "int"),
        "str",
        "repeat_text",
        "the repeated text",
        "a * min(b, 5)",
        {
            "repeat the string as often as the number says, at most 5 times": ("ab", 3),
            "write the first argument as many times in a row as the second says, but no more than 5 times": ("x y", 2),
            "multiply the string by the number, using 5 if the number is larger": ("z", 9),
            "give the string repeated the second argument's number of times, never more than 5": ("moon", 1),
        },
    ),
    binary(
        ("words", "int"),
        "words",
        "first_words",
        "the first words",
        "a[:max(b, 0)]",
        {
            "keep as many words from the start of the list as the number says, none if it is negative": (
                ["to", "be", "or"],
                2,
            ),
            "take the first items of the list, as many as the second argument says (none below zero)": (
                ["red", "fox"],
                1,
            ),
            "cut the list of words to the length that the number gives, treating a negative number as 0": (
                ["a", "b", "c", "d"],
                3,
            ),
            "return the first n words of the list, where n is the second argument or 0 if that is negative": (
                ["pear", "fig"],
                0,
            ),
        },
    ),
    binary(
        ("words", "str"),
        "str",
        "join_with",
        "the text joined by the separator",
        "b.join(a)",
        {
            "join the words of the list with the second argument as separator": (["to", "be", "or"], "+"),
            "connect the strings in the list by putting the second argument between them": (["red", "fox"], "ab"),
            "concatenate the list's words with the given string between each two": (["a", "b", "c"], "-x-"),
            "make one string of the list, separated by the second argument": (["pear", "fig"], " "),
        },
    ),
    binary(
        ("words", "words"),
        "words",
        "concatenate_words",
        "the combined words",
        "a + b",
        {
            "append the second list of words to the first": (["to", "be"], ["or"]),
            "concatenate the two lists of words": (["red"], ["fox", "owl"]),
            "put the words of the second list after those of the first": (["b", "a"], ["c", "a"]),
            "make one list of the words of both lists, first list first": (["pear"], ["fig"]),
        },
    ),
    binary(
        ("words", "words"),
        "words",
        "words_not_in",
        "the words only in the first list",
        "[w for w in a if w not in b]",
        {
            "keep the words of the first list that are not in the second": (["to", "be", "or"], ["or", "not"]),
            "remove from the first list every word that the second list contains": (["red", "fox"], ["red"]),
            "list the strings of the first list that the second list lacks": (["b", "a", "c"], ["c", "x"]),
            "filter the first list of words to those absent from the second": (["pear", "fig"], ["fig", "pea"]),
        },
    ),
    binary(
        ("words", "ints"),
        "dict",
        "zip_dict",
        "the dictionary of both",
        "dict(zip(a, b))",
        {
            "make a dictionary with the words as keys and the numbers as values": (["to", "be"], [3, 1]),
            "pair the words of the first list with the numbers of the second in a dictionary": (["red", "fox"], [5, 7]),
            "map each word of the first list to the number at the same place in the second": (["b", "a"], [0, 9, 4]),
            "zip the two lists into a dictionary": (["pear", "fig"], [2, 2]),
        },
    ),
    binary(
        ("ints", "int"),
        "ints",
        "add_to_each",
        "the shifted numbers",
        "[n + b for n in a]",
        {
            "add the second argument to each number of the list": ([3, 1, 2], 4),
            "increase every item of the list by the given number": ([5, 0], -2),
            "make a list of each item plus the second argument": ([10, 7], 1),
            "shift all numbers in the list up by the second argument": ([-1, 1], 10),
        },
    ),
    binary(
        ("ints", "int"),
        "ints",
        "multiply_each",
        "the scaled numbers",
        "[n * b for n in a]",
        {
            "multiply each number of the list by the second argument": ([3, 1, 2], 4),
            "scale every item of the list by the given number": ([5, 0], -2),
            "make a list of each item times the second argument": ([10, 7], 3),
            "take every number in the list times the second argument": ([-1, 1], 10),
        },
    ),
    binary(
        ("ints", "int"),
        "ints",
        "keep_greater",
        "the numbers above the limit",
        "[n for n in a if n > b]",
        {
            "keep the numbers of the list that are greater than the second argument": ([3, 1, 5, 4], 3),
            "remove the items of the list that are at most the given number": ([5, 0, 9], 2),
            "filter the list to its numbers above the second argument": ([10, 7, -3], 8),
            "select every item of the list that exceeds the second argument": ([-1, 1, 0], 0),
        },
    ),
    binary(
        ("ints", "int"),
        "int",
        "count_equal",
        "the number of matches",
        "a.count(b)",
        {
            "count how often the number occurs in the list": ([3, 1, 3, 4], 3),
            "find how many items of the list equal the second argument": ([5, 0, 9], 2),
            "take the number of times the second argument appears in the list": ([7, 7, 7, 1], 7),
            "count the list's items that are the same as the given number": ([-1, 1, 0], 0),
        },
    ),
    binary(
        ("ints", "ints"),
        "ints",
        "concatenate_numbers",
        "the combined numbers",
        "a + b",
        {
            "append the second list of numbers to the first": ([3, 1], [4]),
            "concatenate the two lists of numbers": ([5], [0, 9]),
            "put the numbers of the second list after those of the first": ([2, 1], [3, 1]),
            "make one list of the numbers of both lists, first list first": ([7], [7]),
        },
    ),
    binary(
        ("ints", "ints"),
        "ints",
        "add_pairwise",
        "the pairwise sums",
        "[p + q for p, q in zip(a, b)]",
        {
            "add the two lists item by item, up to the shorter one": ([3, 1], [4, 2, 9]),
            "make a list of the sums of items at the same position in both lists": ([5, 0], [1, 9]),
            "sum the lists pairwise, stopping at the end of the shorter": ([2, 1, 6], [3, 1]),
            "add each number of the second list to the one at the same place in the first": ([7], [-7]),
        },
    ),
    binary(
        ("ints", "ints"),
        "ints",
        "common_numbers",
        "the common numbers",
        "[n for n in a if n in b]",
        {
            "keep the numbers of the first list that also occur in the second": ([3, 1, 4], [4, 3]),
            "remove from the first list every number that the second list lacks": ([5, 0], [1, 5]),
            "list the items of the first list that the second list contains": ([2, 1, 2, 6], [2, 7]),
            "filter the first list to the numbers found in the second": ([7, 8], [8, 9]),
        },
    ),
    binary(
        ("ints", "ints"),
        "int",
        "dot_product",
        "the dot product",
        "sum(p * q for p, q in zip(a, b))",
        {
            "compute the dot product of the two lists, up to the shorter one": ([3, 1], [4, 2, 9]),
            "multiply the items at the same position in both lists and add up the products": ([5, 2], [1, 9]),
            "sum the pairwise products of the lists, stopping at the end of the shorter": ([2, 1, 6], [3, 1]),
            "add up each number of the first list times the one at the same place in the second": ([7], [-7]),
        },
    ),
    binary(
        ("date", "int"),
        "date",
        "add_days",
        "the later date",
        """
from datetime import date, timedelta
def step(a, b):
    return (date.fromisoformat(a) + timedelta(days=b)).isoformat()
""",
        {
            "add the number as days to the date": ("2024-02-25", 7),
            "move the date forward by the second argument's number of days": ("1999-12-25", 30),
            "find the date that lies the given number of days after the first argument": ("2025-06-01", -1),
            "count the second argument in days on from the date": ("2022-02-06", 4),
        },
    ),
    binary(
        ("date", "date"),
        "int",
        "days_between",
        "the number of days between",
        """
from datetime import date
def step(a, b):
    return (date.fromisoformat(b) - date.fromisoformat(a)).days
""",
        {
            "count the days from the first date to the second": ("2024-02-25", "2024-03-01"),
            "compute the second date minus the first, in days": ("1999-12-25", "1999-12-20"),
            "find how many days the second date is after the first": ("2025-06-01", "2026-06-01"),
            "subtract the first date from the second and give the days": ("2022-02-06", "2022-02-16"),
        },
    ),
    binary(
        ("dict", "words"),
        "ints",
        "look_up",
        "the looked-up values",
        "[a.get(w, 0) for w in b]",
        {
            "look up each word of the list in the dictionary, using 0 where it is missing": (
                {"to": 3, "be": 1},
                ["be", "or"],
            ),
            "list the dictionary's values for the given words, 0 for unknown ones": (
                {"red": 5, "fox": 7},
                ["red", "fox"],
            ),
            "replace each word in the second argument by its value in the dictionary, or 0": (
                {"b": 2, "a": 9},
                ["a", "b", "a"],
            ),
            "make a list of the values that the dictionary has for the words, with 0 for missing keys": (
                {"fig": 4},
                ["pear", "fig"],
            ),
        },
    ),
    binary(
        ("dict", "int"),
        "words",
        "keys_above",
        "the keys above the limit",
        "[k for k, v in a.items() if v > b]",
        {
            "list the keys of the dictionary whose value is greater than the number": ({"to": 3, "be": 1, "or": 2}, 1),
            "keep the dictionary's keys that have a value above the second argument, as a list": (
                {"red": 5, "fox": 7},
                6,
            ),
            "select the keys whose values exceed the second argument": ({"b": 2, "a": 9}, 0),
            "make a list of the keys with values larger than the given number": ({"fig": 4, "pear": 4, "nut": 6}, 4),
        },
    ),
    binary(
        ("dict", "dict"),
        "dict",
        "merge",
        "the merged dictionary",
        "{**a, **b}",
        {
            "merge the two dictionaries, the second one winning": ({"to": 3, "be": 1}, {"be": 5}),
            "combine both dictionaries into one; where a key is in both, keep the second's value": (
                {"red": 5},
                {"fox": 7, "red": 1},
            ),
            "update the first dictionary with the entries of the second": ({"b": 2, "a": 9}, {"c": 4}),
            "make one dictionary of both, with values of the second overriding the first": ({"fig": 4}, {"fig": 6}),
        },
    ),
)
