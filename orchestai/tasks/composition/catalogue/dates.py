"""Operations on dates written as 'YYYY-MM-DD'."""

from orchestai.tasks.composition.operation import Operation, unary

OPERATIONS: tuple[Operation, ...] = (
    unary(
        "date",
        "str",
        "weekday_name",
        "the weekday",
        """
from datetime import date
date.fromisoformat(x).strftime('%A')""",
        {
            "find the name of its weekday in English": "2024-03-15",
            "give the day of the week of the date, such as Monday": "2023-12-25",
            "name the weekday on which the date falls": "2025-07-01",
            "return the full English weekday name of the date": "2022-02-06",
        },
    ),
    unary(
        "date",
        "str",
        "month_name",
        "the month",
        """
from datetime import date
date.fromisoformat(x).strftime('%B')""",
        {
            "find the name of its month in English": "2024-03-15",
            "give the full name of the date's month, such as April": "2023-12-25",
            "name the month in which the date lies": "2025-07-01",
            "return the English month name of the date": "2022-02-06",
        },
    ),
    unary(
        "date",
        "str",
        "day_first",
        "the date written day first",
        "'/'.join(reversed(x.split('-')))",
        {
            "rewrite the date as DD/MM/YYYY": "2024-03-15",
            "write the date with the day first, then the month and year, separated by slashes": "2023-12-25",
            "change the date's format from YYYY-MM-DD to DD/MM/YYYY": "2025-07-01",
            "reformat the date to day/month/year": "2022-02-06",
        },
    ),
    unary(
        "date",
        "int",
        "year",
        "the year",
        "int(x[:4])",
        {
            "take its year as a number": "2024-03-15",
            "extract the year of the date as an integer": "1999-12-25",
            "find which year the date is in": "2025-07-01",
            "return the date's year": "2022-02-06",
        },
    ),
    unary(
        "date",
        "int",
        "day_of_month",
        "the day of the month",
        "int(x[8:])",
        {
            "take its day of the month as a number": "2024-03-15",
            "extract the day of the date as an integer": "1999-12-25",
            "find which day of its month the date is": "2025-07-01",
            "return the date's day number within the month": "2022-02-06",
        },
    ),
    unary(
        "date",
        "int",
        "month_number",
        "the month number",
        "int(x[5:7])",
        {
            "take its month as a number from 1 to 12": "2024-03-15",
            "extract the month of the date as an integer": "1999-12-25",
            "find which number the date's month has": "2025-07-01",
            "return the date's month number": "2022-02-06",
        },
    ),
    unary(
        "date",
        "int",
        "day_of_year",
        "the day of the year",
        """
from datetime import date
date.fromisoformat(x).timetuple().tm_yday""",
        {
            "find which day of the year the date is, counting from 1": "2024-03-15",
            "compute the date's day number within its year": "1999-12-25",
            "count the days from the start of the date's year up to and including it": "2025-07-01",
            "return the day of the year of the date": "2022-02-06",
        },
    ),
    unary(
        "date",
        "date",
        "ten_days_later",
        "the date ten days later",
        """
from datetime import date, timedelta
(date.fromisoformat(x) + timedelta(days=10)).isoformat()""",
        {
            "add 10 days to the date": "2024-02-25",
            "move the date forward by 10 days": "1999-12-25",
            "find the date that is ten days later": "2025-06-01",
            "take the day 10 days after the date": "2022-02-06",
        },
    ),
    unary(
        "date",
        "ints",
        "date_parts",
        "the parts of the date",
        "[int(part) for part in x.split('-')]",
        {
            "list its year, month and day as numbers": "2024-02-25",
            "split the date into a list of year, month and day as integers": "1999-12-05",
            "make a list of three integers from the date: year, month, day": "2025-06-17",
            "break the date into its three numbers, as a list": "2022-09-06",
        },
    ),
)
