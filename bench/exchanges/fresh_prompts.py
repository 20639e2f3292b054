"""What the model is asked for the half of the data that no limit was chosen on; none stands in ``prompts``."""

from __future__ import annotations

from bench.exchanges.prompts import MAIL, TEXT, WEATHER, Prompt, schema

HARBOUR = (
    "The ferry Sigrun left the harbour of Vik at six in the morning with 214 passengers. Fog lay over the bay, and "
    "the captain, Jonas Brandt, steered by radar for the first hour. Near the island of Holm the engine stopped, "
    "because a fishing net had caught in the screw. Two divers from the coast guard cut it loose, and the ship reached "
    "the mainland three hours late. Nobody was hurt, and the passengers were given soup and bread."
)

CHAT = (
    Prompt("f-thunder", "Why do we hear thunder after we see lightning?"),
    Prompt("f-soap", "How does soap remove grease?"),
    Prompt("f-owl", "How can owls see at night?"),
    Prompt("f-compost", "How do I start a compost heap?"),
    Prompt("f-nurse", "What does a nurse do during a normal day?"),
    Prompt("f-rice", "How do I cook rice in a pot?"),
    Prompt("f-bridge", "Why do long bridges hang on cables?"),
    Prompt("f-tides", "What causes high tide and low tide?"),
    Prompt("f-glasses", "How do glasses help people to see better?"),
    Prompt("f-chess", "What is a good first move in chess, and why?"),
    Prompt("f-bus", "Give three reasons to take the bus instead of a car."),
    Prompt("f-snow", "Write a short paragraph about a village in the snow."),
    Prompt("f-robot", "Tell a short story about a robot who learns to paint."),
    Prompt("f-mountain", "Write a short poem about a mountain."),
    Prompt("f-neighbour", "Write a friendly note that asks a neighbour to water my plants."),
    Prompt("f-absence", "Write a short e-mail to say that I am ill today."),
    Prompt("f-tennis", "Explain the rules of tennis to a beginner."),
    Prompt("f-memory", "How can I remember names better?"),
    Prompt("f-newton", "Who was Isaac Newton?"),
    Prompt("f-egypt", "Tell me a little about ancient Egypt."),
    Prompt("f-oxygen", "What is oxygen?", max_tokens=70),
    Prompt("f-museum", "Why do people go to museums?"),
    Prompt("f-cat", "How do I look after a cat?"),
    Prompt("f-winter", "How do trees survive the winter?"),
    Prompt("f-phone", "Should children have mobile phones? Give both sides."),
    Prompt("f-courage", "Define the word 'courage'.", max_tokens=60),
    Prompt("f-antonym", "What is the opposite of 'shallow'?", max_tokens=30),
    Prompt("f-thirsty", "Hi! I am thirsty. What should I drink?", max_tokens=60),
    Prompt("f-spain", "What is the capital of Spain?", max_tokens=40),
    Prompt("f-hotel", "Write a short review of a quiet hotel.", max_tokens=90),
    Prompt("f-sleep", "How many hours of sleep does an adult need?", max_tokens=70),
    Prompt(
        "f-quote", "Give me a well-known quote about time and say what it means.", max_tokens=80
    ),
    Prompt(
        "f-gym",
        "I want to get fit but I have no time.",
        system="You are a friendly trainer. Give short and practical advice.",
    ),
    Prompt(
        "f-refund",
        "The shoes I bought are too small. Can I send them back?",
        system="You work for the support of a shoe shop. Be short and friendly.",
    ),
)
EXACT = (
    Prompt("f-sum", "What is 34 + 21?", max_tokens=50),
    Prompt("f-odd", "List the odd numbers from 1 to 21.", max_tokens=80),
    Prompt("f-seasons", "List the four seasons.", max_tokens=50),
    Prompt("f-fruit", "Name eight fruits.", max_tokens=80),
    Prompt("f-table", "Make a table with three animals and what they eat.", max_tokens=110),
    Prompt("f-code", "The locker code is FERN-83. What is the locker code?", max_tokens=40, nonce="FERN-83"),
    Prompt("f-gate", "My flight leaves from gate K29. Repeat my gate.", max_tokens=40, nonce="K29"),
    Prompt("f-ticket", "The ticket number is 90517. Which number is it?", max_tokens=40, nonce="90517"),
)  # fmt: skip
CODE = (
    Prompt("f-py-max", "Write a Python function that returns the largest number of a list."),
    Prompt("f-py-vowels", "Write a Python function that counts the vowels in a string."),
    Prompt("f-js-button", "Write JavaScript that shows an alert when a button is clicked."),
    Prompt("f-sql", "Write an SQL query that selects all users older than 30.", max_tokens=80),
    Prompt("f-loop", "What is a for loop in programming?"),
)
TEXTS = (
    Prompt("f-summary", f"Summarise this report in two sentences:\n\n{HARBOUR}"),
    Prompt("f-question", f"{HARBOUR}\n\nWhy did the engine stop?", max_tokens=60),
    Prompt("f-keywords", f"List five keywords of this report:\n\n{HARBOUR}", max_tokens=70),
    Prompt("f-title", f"Give this report a headline:\n\n{HARBOUR}", max_tokens=40),
)
LANGUAGES = (
    Prompt("f-fr", "Réponds en français : pourquoi les gens aiment-ils la musique ?", max_tokens=90),
    Prompt("f-de", "Antworte auf Deutsch: Was ist ein Berg?", max_tokens=90),
    Prompt("f-es", "Responde en español: ¿qué es una escuela?", max_tokens=90),
    Prompt("f-it", "Rispondi in italiano: che cos'è il mare?", max_tokens=90),
    Prompt("f-zh", "请用中文回答:什么是春天?", max_tokens=80),
)  # fmt: skip
STRUCTURED = (
    Prompt("f-json-film", "Give me a film with title and year as JSON.", max_tokens=90,
           response_format=schema("film", title=TEXT, year={"type": "integer"})),
    Prompt("f-json-recipe", "Give me a recipe with name and main ingredient as JSON.", max_tokens=100,
           response_format=schema("recipe", name=TEXT, ingredient=TEXT)),
    Prompt("f-json-cat", "Describe a cat as a JSON object.", response_format={"type": "json_object"}, max_tokens=110),
    Prompt("f-tool-weather", "What is the weather in Lima?", tools=(WEATHER,), max_tokens=70),
    Prompt("f-tool-mail", "Write to eva@example.org that lunch is at one.", tools=(MAIL,), max_tokens=110),
)  # fmt: skip

ALL = (*CHAT, *EXACT, *CODE, *TEXTS, *LANGUAGES, *STRUCTURED)
BY_ID = {prompt.id: prompt for prompt in ALL}
OPEN = (*CHAT, *EXACT, *CODE, *TEXTS)
"""What an ordinary fault is asked."""
LIKE = {
    "fr": "f-fr", "de": "f-de", "es": "f-es", "it": "f-it", "zh": "f-zh",
    "summary": "f-summary", "question": "f-question", "keywords": "f-keywords", "title": "f-title",
    "repeat-code": "f-code", "repeat-room": "f-gate", "repeat-train": "f-ticket",
    "json-person": "f-json-film", "json-book": "f-json-recipe", "json-free": "f-json-cat",
    "tool-weather": "f-tool-weather", "tool-mail": "f-tool-mail",
    "add": "f-sum", "capital": "f-spain", "opposite": "f-antonym", "definition": "f-courage",
}  # fmt: skip
"""The fresh prompt in place of one that a fault names."""
