"""Words that link sentences, by what they express, and words that carry no content; chosen for this project."""

TRANSITIONS: dict[str, tuple[str, ...]] = {
    "addition": (
        *("additionally", "also", "besides", "furthermore", "moreover", "in addition", "not only", "as well as"),
        *("together with", "along with"),
    ),
    "example": (
        *("for example", "for instance", "such as", "including", "in particular", "particularly", "especially"),
        *("specifically", "namely", "to illustrate"),
    ),
    "explanation": (
        *("that is", "in other words", "more precisely", "put simply", "to clarify", "in essence", "essentially"),
        *("fundamentally", "at its core"),
    ),
    "consequence": (
        *("accordingly", "as a consequence", "as a result", "consequently", "for this reason", "hence", "therefore"),
        *("thereby", "thus", "this leads to", "owing to", "because of this"),
    ),
    "contrast": (
        *("by contrast", "conversely", "however", "in contrast", "instead", "nevertheless", "nonetheless"),
        *("on the contrary", "on the other hand", "rather than", "whereas", "but", "yet"),
    ),
    "sequence": (
        *("first", "second", "third", "firstly", "secondly", "thirdly", "next", "finally", "lastly", "subsequently"),
        *("to begin with", "initially", "afterwards"),
    ),
    "emphasis": (
        *("above all", "certainly", "clearly", "evidently", "in fact", "indeed", "most importantly", "notably"),
        *("of course", "significantly", "undoubtedly"),
    ),
    "summary": (
        *("all in all", "altogether", "briefly", "in brief", "in conclusion", "in short", "in summary", "on the whole"),
        *("overall", "to conclude", "to sum up", "to summarise", "to summarize", "ultimately"),
    ),
    "comparison": (
        *("analogously", "by analogy", "comparable to", "correspondingly", "equally", "in comparison", "just as"),
        *("in the same way", "likewise", "much like", "similarly"),
    ),
    "concession": (
        *("admittedly", "albeit", "although", "despite", "even if", "even though", "granted", "in spite of"),
        *("notwithstanding", "regardless of", "though"),
    ),
    "condition": (
        *("as long as", "assuming that", "given that", "if", "in case", "only if", "or else", "otherwise"),
        *("provided that", "unless", "whether"),
    ),
    "time": (
        *("after", "at the same time", "before", "currently", "during", "earlier", "eventually", "later", "meanwhile"),
        *("previously", "recently", "simultaneously", "since", "until", "when", "while"),
    ),
}

_WITHOUT_CONTENT = """
a about after all also am an and any are as at be because been before being both but by can could did do does each few
for from had has have he her here him his how i if in into is it its just may me might more most much must my no nor not
now of on only or other our out over own same shall she should so some such than that the their them then there these
they this those through to too under up us very was we were what when where which while who why will with would you your
"""
STOP_WORDS = frozenset(_WITHOUT_CONTENT.split())
