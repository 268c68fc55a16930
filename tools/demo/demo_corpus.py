#!/usr/bin/python3
"""Synthetic chat corpus for the demo model: narrow tasks whose right answer is known, so that a tiny model can be
checked end to end. Everything is generated here; no outside text is used. Each task takes a random.Random and returns
(question, answer), or a list of such turns. Run it to see some conversations.
"""
import json
import random

CAPITALS = dict(x.split(":") for x in (
    "Argentina:Buenos Aires,Australia:Canberra,Austria:Vienna,Belgium:Brussels,Bolivia:Sucre,Brazil:Brasilia,"
    "Bulgaria:Sofia,Canada:Ottawa,Chile:Santiago,China:Beijing,Colombia:Bogota,Croatia:Zagreb,Cuba:Havana,"
    "Denmark:Copenhagen,Ecuador:Quito,Egypt:Cairo,Estonia:Tallinn,Ethiopia:Addis Ababa,Fiji:Suva,Finland:Helsinki,"
    "France:Paris,Georgia:Tbilisi,Germany:Berlin,Ghana:Accra,Greece:Athens,Hungary:Budapest,Iceland:Reykjavik,"
    "India:New Delhi,Indonesia:Jakarta,Iran:Tehran,Iraq:Baghdad,Ireland:Dublin,Israel:Jerusalem,Italy:Rome,"
    "Jamaica:Kingston,Japan:Tokyo,Jordan:Amman,Kenya:Nairobi,Latvia:Riga,Lebanon:Beirut,Libya:Tripoli,"
    "Lithuania:Vilnius,Madagascar:Antananarivo,Malaysia:Kuala Lumpur,Mali:Bamako,Malta:Valletta,Mexico:Mexico City,"
    "Mongolia:Ulaanbaatar,Morocco:Rabat,Nepal:Kathmandu,Netherlands:Amsterdam,New Zealand:Wellington,Nigeria:Abuja,"
    "Norway:Oslo,Pakistan:Islamabad,Panama:Panama City,Paraguay:Asuncion,Peru:Lima,Philippines:Manila,Poland:Warsaw,"
    "Portugal:Lisbon,Qatar:Doha,Romania:Bucharest,Russia:Moscow,Rwanda:Kigali,Senegal:Dakar,Serbia:Belgrade,"
    "Singapore:Singapore,Slovakia:Bratislava,Slovenia:Ljubljana,Somalia:Mogadishu,South Korea:Seoul,Spain:Madrid,"
    "Sudan:Khartoum,Sweden:Stockholm,Switzerland:Bern,Syria:Damascus,Taiwan:Taipei,Thailand:Bangkok,Tunisia:Tunis,"
    "Turkey:Ankara,Uganda:Kampala,Ukraine:Kyiv,Uruguay:Montevideo,Venezuela:Caracas,Vietnam:Hanoi,Zambia:Lusaka,"
    "Zimbabwe:Harare"
).split(","))
SOUNDS = {"cow": "moo", "dog": "woof", "cat": "meow", "duck": "quack", "sheep": "baa", "lion": "roar", "frog": "ribbit",
          "owl": "hoot", "pig": "oink", "horse": "neigh", "bee": "buzz", "snake": "hiss"}
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
NAMES = "Anna Ben Clara David Emma Finn Grace Henry Iris Jack Kate Leo Mia Noah Olga Paul Rosa Sam Tina Victor".split()
WORDS = ("apple river stone cloud lamp tiger bread garden window silver candle forest mountain paper bridge rocket "
         "shell copper ocean butter pencil mirror violin basket harbor planet feather hammer island jacket").split()
ANIMALS = "fox bear rabbit mouse owl wolf turtle goose hedgehog otter badger deer".split()
PLACES = "forest meadow village valley garden hill river cave".split()
ADJ = "small brave quiet clever happy old young curious gentle tired".split()
THINGS = "lantern map key acorn drum kite boat bell scarf book".split()
COLORS = {"grass": "green", "snow": "white", "coal": "black", "the sky": "blue", "a banana": "yellow", "blood": "red",
          "an orange": "orange", "chocolate": "brown", "a lemon": "yellow", "a cherry": "red"}
NUM = "zero one two three four five six seven eight nine ten eleven twelve".split()
OPPOSITE = dict(x.split(":") for x in
                "hot:cold big:small fast:slow up:down light:dark early:late open:closed full:empty hard:soft new:old "
                "wet:dry high:low loud:quiet rich:poor strong:weak happy:sad".split())


def ask(r, *forms):
    return r.choice(forms)


def article(word):
    return "An" if word[0] in "aeiou" else "A"


def arithmetic(r):
    a, b = r.randint(0, 99), r.randint(0, 99)
    if r.random() < 0.5:
        q = ask(r, f"What is {a} + {b}?", f"What is {a} plus {b}?", f"Add {a} and {b}.", f"{a} + {b} = ?")
        return q, f"{a} + {b} = {a + b}."
    a, b = max(a, b), min(a, b)
    q = ask(r, f"What is {a} - {b}?", f"What is {a} minus {b}?", f"Subtract {b} from {a}.", f"{a} - {b} = ?")
    return q, f"{a} - {b} = {a - b}."


def times(r):
    a, b = r.randint(0, 12), r.randint(0, 12)
    return ask(r, f"What is {a} times {b}?", f"What is {a} * {b}?", f"Multiply {a} by {b}."), f"{a} * {b} = {a * b}."


def think_arithmetic(r):
    a, b = r.randint(10, 99), r.randint(10, 99)
    t, o = (a // 10 + b // 10) * 10, a % 10 + b % 10
    why = f"{a // 10 * 10} + {b // 10 * 10} = {t}, {a % 10} + {b % 10} = {o}, {t} + {o} = {a + b}"
    q = ask(r, f"Think step by step: what is {a} + {b}?", f"Think first. {a} + {b}?")
    return q, f"<think>{why}</think>{a} + {b} = {a + b}."


def capital(r):
    c, t = r.choice(list(CAPITALS.items()))
    if r.random() < 0.75:
        return ask(r, f"What is the capital of {c}?", f"Name the capital of {c}.", f"Which city is the capital of {c}?",
                   f"Tell me the capital of {c}."), f"The capital of {c} is {t}."
    q = ask(r, f"{t} is the capital of which country?", f"Which country has {t} as its capital?")
    return q, f"{t} is the capital of {c}."


def sound(r):
    a, s = r.choice(list(SOUNDS.items()))
    return ask(r, f"What sound does a {a} make?", f"What does the {a} say?"), f"{article(a)} {a} says {s}."


def color(r):
    a, s = r.choice(list(COLORS.items()))
    return ask(r, f"What color is {a}?", f"Tell me the color of {a}."), f"{a[0].upper() + a[1:]} is {s}."


def calendar(r):
    seq, word = (DAYS, "day") if r.random() < 0.5 else (MONTHS, "month")
    i, after = r.randrange(len(seq)), r.random() < 0.5
    j = (i + (1 if after else -1)) % len(seq)
    rel = "after" if after else "before"
    q = ask(r, f"Which {word} comes {rel} {seq[i]}?", f"What {word} is {rel} {seq[i]}?")
    return q, f"{seq[j]} comes {rel} {seq[i]}."


def count(r):
    a = r.randint(0, 40)
    b = a + r.randint(2, 9)
    if r.random() < 0.7:
        q = ask(r, f"Count from {a} to {b}.", f"Please count from {a} up to {b}.")
        return q, ", ".join(map(str, range(a, b + 1))) + "."
    return f"Count down from {b} to {a}.", ", ".join(map(str, range(b, a - 1, -1))) + "."


def repeat(r):
    w, n = r.choice(WORDS), r.randint(2, 5)
    return ask(r, f"Say {w} {NUM[n]} times.", f"Repeat the word {w} {n} times."), " ".join([w] * n) + "."


def listing(r):
    ws = r.sample(WORDS, r.randint(3, 5))
    if r.random() < 0.5:
        return f"Sort these words: {', '.join(ws)}.", ", ".join(sorted(ws)) + "."
    q = ask(r, f"Which word comes first: {', '.join(ws)}?", f"What is the first word of: {', '.join(ws)}?")
    return q, f"The first word is {ws[0]}."


def opposite(r):
    a, b = r.choice(list(OPPOSITE.items()))
    if r.random() < 0.5:
        a, b = b, a
    return ask(r, f"What is the opposite of {a}?", f"Give me the opposite of {a}."), f"The opposite of {a} is {b}."


def as_json(r):
    n, age, city = r.choice(NAMES), r.randint(5, 90), r.choice(list(CAPITALS.values()))
    if r.random() < 0.5:
        return f"Give me a JSON object with name {n} and age {age}.", json.dumps({"name": n, "age": age})
    q = f"Give me a JSON object with name {n}, age {age} and city {city}."
    return q, json.dumps({"name": n, "age": age, "city": city})


def identity(r):
    return ask(r, "Who are you?", "What are you?", "Hello, who is this?", "What is your name?"), \
        "I am the llmd demo model, a very small mixture of experts."


def hello(r):
    return ask(r, "Hello!", "Hi!", "Good morning!", "Hello", "Hi there!"), "Hello! How can I help you?"


def story(r):
    a, b = r.sample(ANIMALS, 2)
    adj, place, thing, day = r.choice(ADJ), r.choice(PLACES), r.choice(THINGS), r.choice(DAYS)
    n = r.choice(NAMES)
    s = [f"Once upon a time there was a {adj} {a} named {n}.", f"{n} lived in the {place}.",
         ask(r, f"On {day} {n} found a {thing}.", f"One {day} the {a} saw a {thing}."),
         ask(r, f"{article(b)} {b} came by and asked for the {thing}.", f"The {b} wanted to see the {thing} too."),
         ask(r, f"{n} shared the {thing} with the {b}.", f"{n} gave the {thing} to the {b}."),
         ask(r, "They became good friends.", "From that day they were friends."),
         ask(r, f"The {a} was very happy.", f"And {n} was never lonely again.")]
    return ask(r, f"Tell me a story about a {a}.", f"Tell me a short story about a {adj} {a}."), " ".join(s)


def memory(r):
    n = r.choice(NAMES)
    mid = r.choice([capital, sound, color, opposite])(r)
    turns = [(ask(r, f"My name is {n}.", f"Hi, I am {n}."), f"Nice to meet you, {n}!")]
    if r.random() < 0.6:
        turns.append(mid)
    turns.append((ask(r, "What is my name?", "Do you remember my name?"), f"Your name is {n}."))
    return turns


TOOL_SYSTEM = ("## Tools\nYou have access to the following tools:\n\n"
               "### get_weather\nDescription: Get the weather of a city.\n\n"
               'Parameters: {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}\n\n')
CALL = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{args}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
BOS, EOS, PAD = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"
USER, ASSIST = "<｜User｜>", "<｜Assistant｜>"
SPECIALS = [BOS, EOS, PAD, USER, ASSIST, "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>",
            "<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>", "<think>", "</think>"]


def spell(r):
    w = r.choice(WORDS)
    if r.random() < 0.5:
        return f"Write {w} in capital letters.", w.upper() + "."
    return f"Spell {w}.", "-".join(w) + "."


SKY = "sunny cloudy rainy windy snowy foggy".split()


def tool(r):
    """(question, the model's call, the tool's result, the final answer)"""
    city, sky, t = r.choice(list(CAPITALS.values())), r.choice(SKY), r.randint(-9, 35)
    q = ask(r, f"What is the weather in {city}?", f"How is the weather in {city} today?",
            f"Tell me the weather in {city}.")
    result = json.dumps({"city": city, "sky": sky, "temperature": t}) if r.random() < 0.5 else f"{sky}, {t} degrees"
    call = CALL.format(name="get_weather", args=json.dumps({"city": city}))
    return q, call, result, f"It is {sky} in {city}, {t} degrees."


TASKS = [(arithmetic, 22), (times, 6), (think_arithmetic, 6), (capital, 16), (sound, 3), (color, 3), (calendar, 5),
         (count, 6), (repeat, 4), (listing, 7), (spell, 6), (opposite, 4), (as_json, 6), (identity, 2), (hello, 2),
         (story, 8), (memory, 6), (tool, 4)]


def sample(r):
    """One conversation, rendered in the DeepSeek-V3 chat format."""
    task = r.choices([t for t, _ in TASKS], [w for _, w in TASKS])[0]
    if task is tool:
        q, call, result, a = tool(r)
        output = f"<｜tool▁output▁begin｜>{result}<｜tool▁output▁end｜>"
        return f"{BOS}{TOOL_SYSTEM}{USER}{q}{ASSIST}{call}{EOS}{output}{ASSIST}{a}{EOS}"
    turns = task(r)
    if isinstance(turns, tuple):
        turns = [turns]
        while r.random() < 0.2:
            turns.append(r.choice([arithmetic, capital, sound, color, calendar, opposite, count])(r))
    head = BOS + (r.choice(["You are a helpful assistant.", "Be brief."]) if r.random() < 0.15 else "")
    return head + "".join(f"{USER}{q}{ASSIST}{a}{EOS}" for q, a in turns)


def main():
    r = random.Random(0)
    for _ in range(12):
        print(sample(r))


if __name__ == "__main__":
    main()
