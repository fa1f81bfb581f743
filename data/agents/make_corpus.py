"""Writes corpus.jsonl and questions.jsonl: plain facts about an invented archipelago, and questions about them.

Everything is invented, so that no model knows the answers: they can only be found by searching. Run it from this folder
to write both files again; the same seed gives the same files.
"""

import json
import random
from pathlib import Path


def names(text: str, between: str | None = None) -> list[str]:
    return text.split(between)


ISLANDS = ["Varrow", "Little Varrow", "Tesk", "Hollin", "Oarsay", "Brennet"]
TOWNS = names(
    "Aldermouth Brackwick Cullhaven Dornstead Eskerby Fennimoor Garrowgate Hestlebury Ibbleton Jarnsford Kettleness "
    "Lorrimer Mossgarth Nethercombe Ottersea Pelworthy Quarrendale Ravelstone Skerrow Thornwick Ulverscar Vintergate "
    "Whinfell Yarrowby Zennerham Ambleforth Birchover Calderhythe Drumlish Elmscott Farrowdeep Glasswater Harkholm "
    "Inverlode Kirkmallow Lanternbay Millrace Norrick Oldcastle Pinderby"
)
RIVERS = names("Aske Bellow Carrin Dulwen Evenlow Farl Glimmer Hask Isk Jorrow Keld Lowter Mirrow Nadder Orrin Pell")
PEAKS = names(
    "Ravens Crag,Cold Pike,Greyhorn,Mount Sorrel,Long Tor,The Anvil,Hob's Seat,Windle Fell,Mount Ebbry,Stark Hill,"
    "The Shepherd,Black Rigg",
    ",",
)
FIRST = names(
    "Ada Bram Cora Dag Elin Finn Greta Hugo Ines Jonas Kaja Lorcan Mira Nils Oda Piet Runa Sten Tilda Ulf Vera Wim "
    "Yrsa Arvid Britta Casper Dora Emil Freya Gorm"
)
LAST = names(
    "Marlowe Tarrant Quill Osterby Fenwright Calloway Harrowgate Lindqvist Pemberley Strand Ashgrove Birkett Dunmore "
    "Ellerby Falkner Grimsdale Hobday Ivers Jessamy Kestrel Langmere Mortlake Norwell Orchard Penhallow Rookwood "
    "Silverton Thistlewood Underhill Verrall"
)
TRADES = {
    "clockmaker": "clock",
    "painter": "painting",
    "composer": "song",
    "botanist": "book",
    "poet": "poem",
    "inventor": "machine",
}
WORKS = names(
    "The Tide Bell,A Lamp for Winter,Nine Harbours,The Salt Road,Letters to the Moon,The Paper Gull,Song of the Weirs,"
    "An Orchard at Night,The Brass Heron,Seven Quiet Rooms,The Weather Glass,Under the Long Bridge,The Copper Hare,"
    "Rain on Slate,The Ferryman's Book,A Field of Kites,The Blue Abacus,Winter Barley,The Glass Anchor,Two Lanterns,"
    "The Moth Collector,Stones and Feathers,The Seventh Oar,Morning at the Locks,The Clay Swan,A Map of Echoes,"
    "The Thread Mill,Snow over Hask,The Last Lighthouse,Honey and Iron",
    ",",
)
GOODS = names("salt wool glass cider paper rope honey tiles cheese lanterns boots candles barrels ink kites nails")
BUILDINGS = ["lighthouse", "museum", "library", "bridge", "theatre", "windmill", "market hall", "observatory"]
STONES = ["granite", "slate", "sandstone", "brick", "oak", "limestone", "basalt"]
BIRDS = names("puffin heron curlew wren kestrel tern owl plover dipper swift")
MONTHS = names("January February March April May June July August September October November December")


class World:
    """Passages and questions; every fact is drawn once and told once."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.passages: list[dict[str, str]] = []
        self.questions: list[tuple[str, str, str]] = []
        self._years = iter(self.random.sample(range(1510, 1960), 300))

    def year(self) -> str:
        return str(next(self._years))

    def tell(self, title: str, *sentences: str) -> None:
        self.passages.append({"id": f"p{len(self.passages) + 1:03}", "title": title, "text": " ".join(sentences)})

    def ask(self, question: str, answer: str, titles: str) -> None:
        self.questions.append((question, answer, titles))


def build(world: World) -> None:
    pick = world.random
    home = {town: ISLANDS[i % len(ISLANDS)] for i, town in enumerate(TOWNS)}
    people = [f"{first} {last}" for first, last in zip(FIRST, pick.sample(LAST, len(LAST)), strict=True)]
    births = dict(zip(people, pick.sample(TOWNS, len(people)), strict=True))
    goods = {town: pick.choice(GOODS) for town in TOWNS}

    for i, island in enumerate(ISLANDS):
        towns = [town for town in TOWNS if home[town] == island]
        size, bird = pick.randint(40, 900), BIRDS[i]
        world.tell(
            island,
            f"{island} is one of the six islands of the Kelmar Isles.",
            f"It covers {size} square kilometres, and its emblem is the {bird}.",
            f"Its largest town is {towns[0]}.",
        )
        world.ask(f"Which bird is the emblem of the island of {island}?", bird, island)
        world.ask(f"What is the largest town of the island of {island}?", towns[0], island)
        world.ask(
            f"What is made in the largest town of the island of {island}?", goods[towns[0]], f"{island}|{towns[0]}"
        )

    for town in TOWNS:
        founded, river = world.year(), pick.choice(RIVERS)
        population = pick.randint(11, 480) * 100
        world.tell(
            town,
            f"{town} is a town on the island of {home[town]}, on the river {river}.",
            f"It was founded in {founded} and has about {population} inhabitants.",
            f"{town} is known for its {goods[town]}.",
        )
        world.ask(f"In which year was the town of {town} founded?", founded, town)
        world.ask(f"What is the town of {town} known for?", goods[town], town)
        world.ask(f"On which river does {town} lie?", river, town)

    for river in RIVERS:
        length, source = pick.randint(9, 140), pick.choice(PEAKS)
        world.tell(
            f"River {river}",
            f"The {river} is a river of the Kelmar Isles.",
            f"It rises on {source} and runs {length} kilometres to the sea.",
        )
        world.ask(f"On which mountain does the river {river} rise?", source, f"River {river}")
        world.ask(f"How many kilometres long is the river {river}?", str(length), f"River {river}")

    for peak in PEAKS:
        height, island, climber, year = pick.randint(310, 1890), pick.choice(ISLANDS), pick.choice(people), world.year()
        world.tell(
            peak,
            f"{peak} is a mountain on {island}, {height} metres high.",
            f"It was first climbed in {year} by {climber}.",
        )
        world.ask(f"How many metres high is {peak}?", str(height), peak)
        world.ask(f"Who first climbed {peak}?", climber, peak)
        world.ask(f"In which town was the first climber of {peak} born?", births[climber], f"{peak}|{climber}")

    for person, work in zip(people, pick.sample(WORKS, len(people)), strict=True):
        trade = pick.choice(list(TRADES))
        born, made = world.year(), births[person]
        world.tell(
            person,
            f"{person} was a {trade} from the Kelmar Isles, born in {made} in {born}.",
            f"The best known {TRADES[trade]} by {person} is called {work}.",
        )
        world.tell(
            work,
            f"{work} is a {TRADES[trade]} by {person}.",
            f"It is kept in {(keeper := pick.choice(TOWNS))}.",
        )
        world.ask(f"In which town was {person} born?", made, person)
        world.ask(f"Who made the {TRADES[trade]} called {work}?", person, work)
        world.ask(f"Where is the {TRADES[trade]} {work} kept?", keeper, work)
        world.ask(f"In which town was the maker of {work} born?", made, f"{work}|{person}")

    for town in pick.sample(TOWNS, 36):
        kind, stone, architect, opened = pick.choice(BUILDINGS), pick.choice(STONES), pick.choice(people), world.year()
        name = f"{town} {kind}"
        world.tell(
            name,
            f"The {kind} of {town} opened in {opened}.",
            f"It is built of {stone} and was paid for by {architect}.",
        )
        world.ask(f"What is the {kind} of {town} built of?", stone, name)
        world.ask(f"Who paid for the {kind} of {town}?", architect, name)
        world.ask(f"In which year did the {kind} of {town} open?", opened, name)

    for month in MONTHS:
        town, food = (
            pick.choice(TOWNS),
            pick.choice(["plum cake", "smoked eel", "barley soup", "honey bread", "pear cider"]),
        )
        world.tell(
            f"Feast of {month}",
            f"The Feast of {month} is held every {month} in {town}.",
            f"Its guests eat {food} by lantern light.",
        )
        world.ask(f"Which town holds the Feast of {month}?", town, f"Feast of {month}")
        world.ask(f"What do guests eat at the Feast of {month}?", food, f"Feast of {month}")
        world.ask(f"On which island is the Feast of {month} held?", home[town], f"Feast of {month}|{town}")


def main() -> None:
    world = World(seed=5)
    build(world)
    chosen = world.random.sample(world.questions, 200)
    splits = ["train"] * 120 + ["validation"] * 30 + ["test"] * 50
    folder = Path(__file__).parent
    with (folder / "corpus.jsonl").open("w") as file:
        file.writelines(json.dumps(passage) + "\n" for passage in world.passages)
    with (folder / "questions.jsonl").open("w") as file:
        for number, ((question, answer, titles), split) in enumerate(zip(chosen, splits, strict=True), start=1):
            task = {
                "task_id": f"kelmar/{number}",
                "suite": "written",
                "split": split,
                "instruct_prompt": question,
                "answers": [answer],
                "details": {"supporting_titles": titles.split("|")},
                "source": "synthetic, made for OrchestAI; Apache-2.0",
            }
            file.write(json.dumps(task) + "\n")


if __name__ == "__main__":
    main()
