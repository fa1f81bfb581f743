"""Operations on dictionaries from strings to integers."""

from orchestai.tasks.composition.operation import Operation, not_empty, unary

OPERATIONS: tuple[Operation, ...] = (
    unary(
        "dict",
        "words",
        "sorted_keys",
        "the sorted keys",
        "sorted(x)",
        {
            "list its keys in alphabetical order": {"pear": 2, "fig": 5},
            "take its sorted keys as a list": {"b": 1, "c": 9, "a": 4},
            "make a list of its keys and sort it": {"to": 3, "be": 1},
            "give the keys of the dictionary from A to Z": {"red": 7, "blue": 0},
        },
    ),
    unary(
        "dict",
        "ints",
        "values",
        "the values",
        "list(x.values())",
        {
            "list its values": {"pear": 7, "fig": 5, "plum": 6},
            "take the values of the dictionary as a list": {"b": 4, "c": 9},
            "make a list of its values, in order": {"to": 3, "be": 1},
            "collect the numbers stored in it into a list": {"red": 0, "blue": 2},
        },
    ),
    unary(
        "dict",
        "int",
        "sum_values",
        "the sum of the values",
        "sum(x.values())",
        {
            "add up its values": {"pear": 7, "fig": 5},
            "compute the sum of the dictionary's values": {"b": 4, "c": 9, "a": 1},
            "find the total of all values in the dictionary": {"to": 3, "be": -1},
            "sum the numbers stored in it": {"red": 7},
        },
    ),
    unary(
        "dict",
        "int",
        "count_keys",
        "the number of keys",
        "len(x)",
        {
            "count its keys": {"pear": 7, "fig": 5},
            "find how many entries the dictionary has": {"b": 4, "c": 9, "a": 1},
            "take the number of keys in it": {"to": 3},
            "compute the size of the dictionary": {"red": 7, "blue": 0},
        },
    ),
    unary(
        "dict",
        "int",
        "largest_value",
        "the largest value",
        "max(x.values(), default=0)",
        {
            "find its largest value": {"pear": 7, "fig": 5},
            "take the maximum of the dictionary's values": {"b": 4, "c": 9, "a": 1},
            "pick the highest value in the dictionary": {"to": 3, "be": 8},
            "return the greatest number stored in it": {"red": 2, "blue": 0},
        },
        domain=not_empty,
    ),
    unary(
        "dict",
        "dict",
        "double_values",
        "the doubled dictionary",
        "{k: v * 2 for k, v in x.items()}",
        {
            "double each of its values": {"pear": 7, "fig": 5},
            "multiply every value in the dictionary by 2": {"b": 4, "c": -9},
            "replace each value in it by twice the value, keeping the keys": {"to": 3, "be": 1},
            "take two times each value of the dictionary": {"red": 6},
        },
    ),
    unary(
        "dict",
        "dict",
        "keep_large_values",
        "the entries with large values",
        "{k: v for k, v in x.items() if v > 2}",
        {
            "keep only its entries whose value is greater than 2": {"pear": 7, "fig": 1, "plum": 2},
            "remove the entries with values of 2 or less from the dictionary": {"b": 4, "c": 9, "a": 1},
            "filter the dictionary to the keys whose values are above 2": {"to": 3, "be": 0},
            "select the items of the dictionary with a value of at least 3": {"red": 2, "blue": 3},
        },
    ),
)
