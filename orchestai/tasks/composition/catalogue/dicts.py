"""Operations on dictionaries from strings to integers."""

from orchestai.tasks.composition.operation import Operation, unary

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
        "words",
        "keys_by_value",
        "the keys by value",
        "sorted(x, key=x.get)",
        {
            "list its keys by increasing value, ties in their order": {"pear": 7, "fig": 5, "plum": 6},
            "sort its keys from the smallest value to the largest": {"b": 4, "c": 9, "a": 1},
            "order the keys of the dictionary by their values, lowest first": {"to": 3, "be": 1},
            "give its keys as a list, the one with the least value first": {"red": 7, "blue": 0},
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
            "find its largest value, or 0 if it is empty": {"pear": 7, "fig": 5},
            "take the maximum of the dictionary's values (0 for an empty one)": {"b": 4, "c": 9, "a": 1},
            "pick the highest value in the dictionary, or 0 when there is none": {"to": 3, "be": 8},
            "return the greatest number stored in it, 0 if it has none": {"red": 2, "blue": 0},
        },
    ),
    unary(
        "dict",
        "str",
        "key_of_largest",
        "the key of the largest value",
        "max(x, key=x.get, default='')",
        {
            "find the key with its largest value, the first if several have it, or '' if it is empty": {"a": 7, "b": 9},
            "take the key whose value is highest (first of equals; '' for an empty dictionary)": {
                "x": 4,
                "y": 9,
                "z": 1,
            },
            "pick the key that maps to the maximum value, the earliest on a tie, '' when there is none": {
                "to": 3,
                "be": 1,
            },
            "return the dictionary's key of greatest value, first of several, '' if it has none": {"red": 2, "blue": 8},
        },
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
    unary(
        "dict",
        "dict",
        "upper_keys",
        "the dictionary with upper-case keys",
        "{k.upper(): v for k, v in x.items()}",
        {
            "convert its keys to upper case": {"pear": 7, "fig": 1},
            "make every key of the dictionary all capitals": {"b": 4, "cat": 9},
            "write the keys of it in uppercase, keeping the values": {"to": 3},
            "turn each key in the dictionary into capital letters": {"red": 2, "blue": 3},
        },
    ),
)
