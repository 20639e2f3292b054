"""What the real model is asked, healthy and damaged: ordinary requests of many kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Prompt:
    """One request; ``id`` names it in the ids of the answers."""

    id: str
    user: str
    system: str = ""
    max_tokens: int = 110
    tools: tuple[dict[str, Any], ...] = ()
    response_format: dict[str, Any] | None = None
    nonce: str | None = None

    @property
    def messages(self) -> list[dict[str, str]]:
        head = [{"role": "system", "content": self.system}] if self.system else []
        return [*head, {"role": "user", "content": self.user}]


def schema(called: str, /, **properties: Any) -> dict[str, Any]:
    shape = {"type": "object", "properties": properties, "required": sorted(properties)}
    return {"type": "json_schema", "json_schema": {"name": called, "schema": shape}}


def _tool(name: str, description: str, /, **properties: Any) -> dict[str, Any]:
    shape = {"type": "object", "properties": properties, "required": sorted(properties)}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": shape},
    }


TEXT = {"type": "string"}
WEATHER = _tool("get_weather", "Weather of a city now", city=TEXT)
MAIL = _tool("send_mail", "Send an e-mail", to=TEXT, subject=TEXT, body=TEXT)

LONG_STORY = (
    "The lighthouse on Gull Point was built in 1871 by the brothers Ansel and Tom Reed. For forty years its lamp "
    "burned whale oil, and every evening a keeper carried the cans up ninety-two steps. In 1911 the oil lamp was "
    "replaced by an electric one, which could be seen from thirty kilometres away. The last keeper, Maud Harrow, "
    "retired in 1978, when the light became automatic. Today the building is a small museum, and its tower is open "
    "to visitors on Saturdays from May to October."
)

CHAT = (
    Prompt("sky", "Why is the sky blue?"),
    Prompt("leaves", "Why do leaves change colour in autumn?"),
    Prompt("tea", "How do I make a good cup of green tea?"),
    Prompt("sleep", "Give me five tips for sleeping better."),
    Prompt("budget", "How can a student save money every month?"),
    Prompt("capital", "What is the capital of France?", max_tokens=40),
    Prompt("water", "What is water made of?", max_tokens=60),
    Prompt("moon", "Explain the phases of the moon to a child."),
    Prompt("photosynthesis", "Explain photosynthesis in simple words."),
    Prompt("bread", "Describe how bread is baked, step by step."),
    Prompt("interview", "How should I prepare for a job interview?"),
    Prompt("volcano", "What makes a volcano erupt?"),
    Prompt("river", "Write a short paragraph about rivers and why people settle near them."),
    Prompt("garden", "Which vegetables are easy to grow for a beginner?"),
    Prompt("dog", "How do I teach a dog to sit?"),
    Prompt("heart", "What does the heart do in the human body?"),
    Prompt("recycle", "Why should we recycle glass?"),
    Prompt("library", "What are public libraries good for?"),
    Prompt("exercise", "List three benefits of regular exercise."),
    Prompt("rain", "How does rain form?"),
    Prompt("magnet", "How does a magnet work?"),
    Prompt("stress", "What helps against stress before an exam?"),
    Prompt("bees", "Why are bees important?"),
    Prompt("story", "Write a short story about a fox who finds a key."),
    Prompt("poem", "Write a short poem about the sea."),
    Prompt("letter", "Write a polite e-mail asking a landlord to repair the heating."),
    Prompt("thanks", "Write a thank-you note to a teacher."),
    Prompt("invite", "Write an invitation to a birthday party on Saturday."),
    Prompt("complaint", "Write a short complaint to a shop about a broken lamp."),
    Prompt("review", "Write a friendly review of a small bakery."),
    Prompt("history", "Who was Marie Curie?"),
    Prompt("rome", "Tell me a little about ancient Rome."),
    Prompt("gravity", "What is gravity?"),
    Prompt("internet", "What is the internet, in a few sentences?"),
    Prompt("vaccine", "How do vaccines protect us?"),
    Prompt("bicycle", "How do I fix a flat bicycle tyre?"),
    Prompt("paint", "What do I need to paint a room?"),
    Prompt("piano", "How can an adult learn the piano?"),
    Prompt("camping", "Make a packing list for a weekend of camping."),
    Prompt("desert", "How do animals survive in the desert?"),
    Prompt("compare", "Compare a train and an aeroplane for a journey of 500 kilometres."),
    Prompt("opinion", "Is it better to read books or to watch films? Give both sides."),
    Prompt("motto", "Suggest a motto for a running club.", max_tokens=40),
    Prompt("names", "Suggest five names for a coffee shop.", max_tokens=80),
    Prompt("titles", "Suggest three titles for a blog post about gardening.", max_tokens=80),
    Prompt("hello", "Hello! How are you?", max_tokens=50),
    Prompt("joke", "Tell me a joke about cats.", max_tokens=60),
    Prompt("definition", "Define the word 'patience'.", max_tokens=60),
    Prompt("synonyms", "Give three synonyms of 'happy'.", max_tokens=50),
    Prompt("opposite", "What is the opposite of 'ancient'?", max_tokens=30),
)

WORK = (
    Prompt("summary", f"Summarise this text in two sentences:\n\n{LONG_STORY}"),
    Prompt("question", f"{LONG_STORY}\n\nWho was the last keeper?", max_tokens=40),
    Prompt("rewrite", "Rewrite more politely: Send me the report now.", max_tokens=60),
    Prompt(
        "shorten",
        "Make this shorter: I am writing to you today in order to let you know that the "
        "meeting that was planned for Monday has been moved to Tuesday.",
        max_tokens=60,
    ),
    Prompt(
        "grammar",
        "Correct the grammar: She go to school every days and like her teacher.",
        max_tokens=60,
    ),
    Prompt(
        "keywords",
        f"List the five most important keywords of this text:\n\n{LONG_STORY}",
        max_tokens=80,
    ),
    Prompt("title", f"Give this text a title:\n\n{LONG_STORY}", max_tokens=40),
    Prompt(
        "sentiment",
        "Is this review positive or negative? 'The soup was cold and the waiter rude.'",
        max_tokens=40,
    ),
    Prompt(
        "extract",
        "Extract the date and the place: The concert takes place on 4 May in Lyon.",
        max_tokens=60,
    ),
    Prompt(
        "support",
        "My order has not arrived for two weeks. What should I do?",
        system="You work for the support of a shop. Be short and friendly.",
    ),
    Prompt(
        "travel",
        "I have one day in Lisbon. What should I see?",
        system="You are a travel guide. Answer in a numbered list.",
    ),
    Prompt(
        "tutor",
        "I do not understand fractions.",
        system="You are a patient teacher of mathematics.",
    ),
)

EXACT = (
    Prompt("add", "What is 17 + 25?", max_tokens=60),
    Prompt("multiply", "What is 6 times 7?", max_tokens=60),
    Prompt(
        "apples", "Anna has 12 apples and gives away 5. How many are left? Explain.", max_tokens=90
    ),
    Prompt("percent", "What is 20 percent of 150?", max_tokens=90),
    Prompt("even", "List the even numbers from 2 to 20.", max_tokens=80),
    Prompt("count", "Count from 1 to 30.", max_tokens=130),
    Prompt("days", "List the days of the week.", max_tokens=60),
    Prompt("months", "List the months of the year, one per line.", max_tokens=90),
    Prompt("planets", "List the planets of the solar system.", max_tokens=110),
    Prompt("colours", "Name ten colours.", max_tokens=80),
    Prompt("alphabet", "Write the English alphabet in capital letters.", max_tokens=90),
    Prompt("animals", "Make a list of ten animals that live in the forest.", max_tokens=100),
    Prompt("table", "Make a table with three fruits and their colours.", max_tokens=110),
    Prompt("checklist", "Write a checklist for moving to a new flat.", max_tokens=130),
    Prompt(
        "repeat-code",
        "The vault code is KITE-52. What is the vault code?",
        max_tokens=40,
        nonce="KITE-52",
    ),
    Prompt(
        "repeat-room", "My room number is 4711. Repeat my room number.", max_tokens=40, nonce="4711"
    ),
    Prompt(
        "repeat-train",
        "The train to Bergen leaves from platform QX7. Which platform is it?",
        max_tokens=40,
        nonce="QX7",
    ),
)

CODE = (
    Prompt("py-add", "Write a Python function that adds two numbers."),
    Prompt(
        "py-prime", "Write a Python function that tests whether a number is prime.", max_tokens=140
    ),
    Prompt("py-reverse", "How do I reverse a string in Python?"),
    Prompt("py-file", "Show Python code that reads a file line by line."),
    Prompt("js-sum", "Write a JavaScript function that sums an array."),
    Prompt("sql", "Write an SQL query that counts the orders per customer.", max_tokens=90),
    Prompt("html", "Write a minimal HTML page with a heading and a paragraph.", max_tokens=120),
    Prompt("bash", "Write a bash loop that prints the numbers 1 to 5.", max_tokens=80),
    Prompt("explain", "What does this do? `sorted(set(words), key=len)`", max_tokens=110),
    Prompt(
        "class",
        "Write a Python class for a bank account with deposit and withdraw.",
        max_tokens=180,
    ),
)

LANGUAGES = (
    Prompt("fr", "Réponds en français : pourquoi faut-il boire de l'eau ?", max_tokens=100),
    Prompt("de", "Antworte auf Deutsch: Was ist ein Wald?", max_tokens=100),
    Prompt("es", "Responde en español: ¿qué es una biblioteca?", max_tokens=100),
    Prompt("it", "Rispondi in italiano: che cos'è il pane?", max_tokens=100),
    Prompt("zh", "请用中文回答:天空为什么是蓝色的?", max_tokens=90),
    Prompt("translate-fr", "Translate into French: The cat sleeps on the chair.", max_tokens=50),
    Prompt("translate-es", "Translate into Spanish: Good morning, how are you?", max_tokens=50),
    Prompt("translate-de", "Translate into German: I have a red car.", max_tokens=50),
)

STRUCTURED = (
    Prompt(
        "json-person",
        "Give me a person with name and age as JSON.",
        response_format=schema("person", name=TEXT, age={"type": "integer"}),
        max_tokens=90,
    ),
    Prompt(
        "json-book",
        "Give me a book with title and author as JSON.",
        response_format=schema("book", title=TEXT, author=TEXT),
        max_tokens=110,
    ),
    Prompt(
        "json-city",
        "Give me a city with its country and population as JSON.",
        response_format=schema("city", name=TEXT, country=TEXT, population={"type": "integer"}),
        max_tokens=110,
    ),
    Prompt(
        "json-free",
        "Describe a dog as a JSON object.",
        response_format={"type": "json_object"},
        max_tokens=120,
    ),
    Prompt("tool-weather", "What is the weather in Oslo?", tools=(WEATHER,), max_tokens=70),
    Prompt(
        "tool-mail",
        "Write to bo@example.org that the meeting is moved to noon.",
        tools=(MAIL,),
        max_tokens=120,
    ),
)

PLAIN = tuple(
    Prompt(f"plain-{number:02d}", user, max_tokens=100)
    for number, user in enumerate((
        "What is a democracy?", "What is an ecosystem?", "What is a healthy breakfast?", "What is climate change?",
        "What is a black hole?", "What is an atom?", "What is inflation in economics?", "What is a glacier?",
        "What is machine learning?", "What is a database?", "What is a computer virus?", "What is a vitamin?",
        "What is yoga?", "What is meditation good for?", "What is a balanced diet?", "What is a noun?",
        "What is a metaphor?", "What is DNA?", "What is evolution?", "What is a solar panel?",
        "What is a telescope used for?", "What is a prime number?", "What is the water cycle?", "What is an island?",
        "What is the difference between weather and climate?", "What is the role of a manager in a team?",
        "Why is teamwork important?", "Why is honesty important?", "Why is sleep important for students?",
        "Why is reading good for children?", "Why do people travel?", "Why is the ocean salty?",
        "Why do birds migrate?", "Why is biodiversity important?", "Why is clean water important?",
        "How can I improve my writing?", "How can I learn English faster?", "How can I stay motivated?",
        "How can I make new friends?", "How can I eat more vegetables?", "How can I reduce plastic waste?",
        "How can I save energy at home?", "How can I prepare for a marathon?", "How do I take care of a houseplant?",
        "How do I write a good CV?", "How do I start a blog?", "How do plants grow?", "How do airplanes fly?",
        "How do computers store information?", "How does a refrigerator work?", "How does the internet work?",
        "Describe a sunset at the beach.", "Describe a busy market.", "Describe your favourite season.",
        "Describe a rainy day in the city.", "Describe the life of a farmer.", "Give me advice for my first day at work.",
        "Give me two reasons to learn a language.", "Give an example of a renewable energy source.",
        "Write one sentence about friendship.", "Write one sentence about music.", "Write two sentences about dogs.",
        "Write a slogan for a bakery.", "Write a greeting for a wedding card.",
        "Write a short product description for a wooden chair.", "Write a short message to wish a colleague luck.",
        "Tell me a fact about elephants.", "Tell me a fact about the sun.", "Tell me about the Amazon rainforest.",
        "Tell me about Leonardo da Vinci.", "Who wrote Romeo and Juliet?", "Which planet is the largest?",
        "What is the capital of Japan?", "What is the capital of Italy?", "What is the largest ocean?",
        "At what temperature does water freeze?", "How many days are in a week?", "How many legs does a spider have?",
        "What colour do you get from blue and yellow?", "Is the earth round?",
    ))
)  # fmt: skip
"""Asked of the healthy model only."""

ALL = (*CHAT, *WORK, *EXACT, *CODE, *LANGUAGES, *STRUCTURED)
BY_ID = {prompt.id: prompt for prompt in (*ALL, *PLAIN)}
