"""Healthy but odd answers: none may be found bad or suspect."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest

from quality_lib.exchanges.exchange import Exchange
from tests.gates.answers import MORE, PROSE, answer, found

TOOL = {
    "type": "function",
    "function": {"name": "get_tide", "parameters": {"type": "object", "properties": {"port": {}}}},
}
LETTER = "Dear Ms Weber,\n\nThank you for your letter. I am glad that the lamp has arrived.\n\nKind regards,\nAnna"
HEALTHY: list[tuple[str, Exchange]] = [
    ("short", answer("Hi", "Hello")),
    ("a mark that was asked for", answer(".", "Which mark ends a sentence?")),
    ("a quoted mark", answer(".", 'Reply with "." and nothing else, please.')),
    ("a question mark", answer("?", "Tell me when you do not understand.")),
    ("a star", answer("*", "How would you rate it from one to three?")),
    ("a mark, cut", answer(".", "Continue the sentence of the old man", "length", params={"max_tokens": 1})),
    ("a mark to a mark", answer(".", "...")),
    ("a plus", answer("+", "Which one adds two numbers?")),
    ("decomposed Vietnamese", answer(unicodedata.normalize("NFD", "Thủ đô của Việt Nam là Hà Nội. Thành phố ở miền Bắc."), "Thủ đô của Việt Nam?")),
    ("decomposed Greek", answer(unicodedata.normalize("NFD", "ᾧ ᾦ ᾧ ᾗ ᾖ: τῷ λόγῳ, ᾧ πιστεύομεν."), "Write some Greek with accents.")),
    ("one tower told of", answer("A letter such as a\u0300\u0301\u0302 carries three accents.", "Can accents stack?")),
    ("zalgo that was asked for", answer("T\u0334\u031b\u0356h\u0337\u0330\u035de d\u0335\u0319\u0355a\u0335\u0319\u0355y", "Make this text a zalgo cipher: The day")),
    ("number", answer("4", "2+2?")),
    ("yes", answer("Yes.", "Is it?", "length")),
    ("prose", answer(PROSE + MORE)),
    ("cut by the caller", answer(PROSE[:120], finish="length", params={"max_tokens": 30})),
    ("letter", answer(LETTER, "Write a thank-you letter.")),
    ("room for a signature", answer(LETTER.replace("regards,\n", "regards,\n\n\n\n\n\n"), "Write to her.")),
    ("a form with room", answer("Name:\n\n\n\n\n\n\nAddress:\n\n\n\n\n\n\nAge:", "A form with room to write in.")),
    ("a marker that was asked of", answer("Gemma writes <start_of_turn> and <end_of_turn>.", "What does the Gemma chat template write?")),
    ("wide verses", answer("The tide\n\n\ncomes in\n\n\nand goes\n\n\nagain\n\n\nand is\n\n\ngone", "A poem.")),
    ("a doubled word told of", answer("Write the the once: the lamp.", "Which mistakes are in: see the the lamp")),
    ("a statement by name", answer("Inside the for loop the index grows.", "Where does it grow?")),
    ("a band", answer("It was recorded by the The.", "Who recorded it?")),
    # repetition that was asked for or belongs to the form
    ("say it", answer("thank you " * 10, 'Say "thank you" ten times.')),
    ("say it, cut", answer("thank you " * 9 + "thank", 'Say "thank you" ten times.', "length")),
    ("forty lines", answer("I will not waste chalk.\n" * 40, "Write forty times: I will not waste chalk.")),
    ("in German", answer("Hallo " * 12, "Wiederhole das Wort Hallo 12 mal.")),
    ("in Chinese", answer("你好" * 10, "请把你好重复十次")),
    ("refrain", answer("Row on, row on,\nthe mist is thin;\nrow on, row on,\nthe tide comes in;\nrow on, row on.", "A poem.")),
    ("laughter", answer("Hahahahahaha! That was a good one.", "Tell me a joke.")),
    ("drawn out", answer("Nooooooo! You did not!", "React to the news.")),
    ("wow", answer("Wow!!!!!!!!!! " + PROSE)),
    ("ellipsis", answer("Well... " + PROSE + "Perhaps... who knows......")),
    ("emoji row", answer("🎉" * 20, "20 party emojis please.")),
    ("emoji cut", answer("🎉🎉🎉\ufffd", "Ten emojis.", "length")),
    ("na na", answer("Na na na na, hey hey hey, goodbye.", "Sing the chorus.")),
    ("very very", answer("It was a very, very long day, and she said that that was that. " + PROSE)),
    ("verses", answer("\n\n".join(f"{n} green bottles\nhanging on the wall" for n in ("Ten", "Nine", "Eight")), "The song.")),
    # tables, lists, rulers
    ("table", answer("| host | state |\n|---|---|\n" + "".join(f"| node-{n} | ok |\n" for n in range(14)), "Status table?")),
    ("equal rows", answer("| a | b |\n|---|---|\n" + "| ok | ok |\n" * 14, "Status table?")),
    ("checklist", answer("- [ ] check the valve\n" * 14, "A checklist to print.")),
    ("ruler", answer(PROSE + "\n" + "-" * 80 + "\n" + MORE)),
    ("ruler at a cut", answer(PROSE + "\n" + "=" * 80, finish="length")),
    ("wide table border, cut", answer("+----------+----------+\n| a        | b        |\n+----------+-------", "A table.", "length")),
    ("leaders", answer("Foreword ......................... 3\nTools ............................ 9", "A table of contents.")),
    ("form", answer("Name: ______________________\nDate: ______________________\nSigned: ____________________", "A form.")),
    ("box", answer("┌──────────────────┐\n│  Work in progress │\n└──────────────────┘", "Draw a box.")),
    ("padding", answer("name" + " " * 70 + "price\ntea" + " " * 71 + "3", "Two columns.")),
    ("keywords", answer("tea, green tea, black tea, teapot, tea cup, tea bag, tea house", "Keywords for a tea shop.")),
    ("nouns", answer("anchor basket candle dragon engine feather guitar hammer island jacket kettle ladder mirror needle", "14 nouns, only blanks between.")),
    ("numbered list", answer("\n".join(f"{n}. Visit the museum of {w}." for n, w in enumerate(("art", "glass", "salt", "tin", "tea"), 1)), "Five ideas?")),
    # code and data
    ("getters", answer("```python\n" + "".join(f"def get_{c}(self):\n    return self._{c}\n\n" for c in "abcdefghij") + "```", "Ten getters.")),
    ("code without fence", answer("def area(r):\n    return 3.14159 * r ** 2\n\nprint(area(2))\nprint(area(3))", "Area of a circle in Python?")),
    ("cut code", answer("Here:\n```python\ndef f(x):\n    return x\n\ndef g(x):\n    return f(", "A function.", "length")),
    ("pseudo-code", answer("```python\nfor each user:\n    ...\n```", "Sketch it.")),
    ("diff", answer("```diff\n- a = 1\n+ a = 2\n```", "Show the change.")),
    ("SQL rows", answer("INSERT INTO t VALUES\n" + "(?, ?, ?),\n" * 14 + "(?, ?, ?);", "15 placeholder rows.")),
    ("minified JSON", answer("[" + ",".join(f'{{"id":{n},"t":20,"ok":true}}' for n in range(14)) + "]", "Minified JSON of 14 sensors.")),
    ("zeros", answer("values = [" + "0, " * 60 + "0]", "A list of 61 zeros.")),
    ("csv", answer("day,temp,ok\n" + "".join(f"{n},20,true\n" for n in range(1, 20)), "CSV of 19 days.")),
    ("log", answer("\n".join(f"12:00:{n:02d} INFO heartbeat ok" for n in range(0, 60, 5)), "The log of a heartbeat.")),
    ("trace", answer('Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    main()\nKeyError: \'x\'', "What does the error look like?")),
    ("hex dump", answer("00000000  00 00 00 00 00 00 00 00\n00000008  00 00 00 00 00 00 00 00\n", "Hex dump of 16 zero bytes.")),
    ("base64 zeros", answer("A" * 128, "Base64 of 96 zero bytes.")),
    ("base64 cut", answer("A" * 90, "Base64 of 96 zero bytes.", "length")),
    ("sevenths", answer("0." + "142857" * 10, "First 60 digits of 1/7.")),
    ("thirds cut", answer("0." + "3" * 50, "1/3 to 50 digits.", "length")),
    ("dna", answer("ATATATATATATATATATATATATATATATATATATATATATATATATATAT", "A DNA microsatellite of 26 AT.")),
    ("uuids", answer("8857f9a4-3908-4227-859d-b9165b0ee76f\n5464ecc2-80b0-408b-8770-24208aa4248c", "Two random UUIDs.")),
    ("regex", answer(r"Use `^(?:[a-z0-9_]+\.)*[a-z0-9_]+@example\.com$` and escape the dot.", "A regex for mail.")),
    ("command", answer("Run `tar -xzf file.tar.gz -C /opt --strip-components=1` and then `ls -la /opt`.", "How do I unpack it?")),
    ("identifiers", answer("Set max_tokens to 5 and call getUser() before setName(); the IDs come from user_id, not from userId.", "How?")),
    ("latex", answer(r"\[ \int_0^1 x^2\,dx = \frac{1}{3} \] and $a_n = a_{n-1} + a_{n-2}$.", "The integral?")),
    ("chess", answer("1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. Ba4 Nf6 5. O-O Be7 6. Re1 b5 7. Bb3 d6", "Main line of the Ruy Lopez.")),
    ("sums", answer("2 × 1 = 2; 2 × 2 = 4; 2 × 3 = 6; 2 × 4 = 8; 2 × 5 = 10; 2 × 6 = 12", "The times table of 2.")),
    ("lorem", answer("Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore.", "Lorem ipsum.")),
    ("art", answer(" /\\_/\\ \n( o.o )\n > ^ < ", "Draw a cat.")),
    # languages and scripts
    ("six languages", answer("English: thank you; Español: gracias; Русский: спасибо; 日本語: ありがとう; 한국어: 감사합니다; ไทย: ขอบคุณ", "Say 'thank you' in six languages.")),
    ("Chinese", answer("河流从山上流下来，经过三个城镇，最后流入大海。春天它带来融化的雪水。", "请介绍一下这条河。")),
    ("Chinese with Latin names", answer("可以使用 Python 的 requests 库发送 HTTP 请求，例如调用 GET 方法。", "怎么发送请求？")),
    ("Japanese", answer("川は山から流れ出し、三つの町を通って海に注ぎます。春には雪解け水を運びます。", "川について教えて")),
    ("Russian", answer("Река начинается в горах и течёт через три города, прежде чем впадает в море.", "Расскажи о реке.")),
    ("name in brackets", answer("Confucius (孔子, Kǒngzǐ) was a teacher who lived in the sixth century before our era.", "Who was the Master?")),
    ("greek letters", answer("The angle α is twice β, and Δt is measured in μs, so π enters the formula once.", "What is the angle?")),
    ("etymology", answer("The word comes from Greek φιλοσοφία, love of wisdom.", "The etymology of philosophy?")),
    ("translation", answer("Доброе утро, как дела?", "Translate to Russian: good morning, how are you?")),
    ("finnish", answer("Joki saa alkunsa kukkuloilta ja virtaa kolmen kaupungin läpi ennen kuin se laskee mereen.", "Kerro joesta.")),
    ("turkish", answer("Nehir tepelerden doğar ve denize ulaşmadan önce üç kasabadan geçer.", "Nehri anlat.")),
    ("vietnamese", answer("Con sông bắt nguồn từ những ngọn đồi và chảy qua ba thị trấn trước khi ra biển.", "Kể về con sông.")),
    ("Portuguese capitals", answer("NÃO ESTACIONE. ATENÇÃO: SAÍDA DE VEÍCULOS. ÁREA RESTRITA À CIRCULAÇÃO.", "Três placas.")),
    ("French to a French question", answer("La rivière naît dans les collines et traverse trois villes avant de se jeter dans la mer, où elle finit.", "Réponds en français : où va la rivière ?")),
    ("long German word", answer("„Donaudampfschifffahrtsgesellschaftskapitän“ ist ein langes Wort, und es ist richtig.", "Nenne ein langes Wort.")),
    ("ports", answer("SSH 22, FTP 21, SMTP 25, DNS 53, HTTP 80, IMAP 143, HTTPS 443, MySQL 3306, Redis 6379.", "Which ports are usual?")),
    ("arithmetic", answer("15% of 80 is 12, because 0.15 × 80 = 12.", "How much is 15% of 80?")),
    ("scores", answer("Spain 3-0 Croatia, Italy 2-1 Albania, Spain 1-0 Italy, Croatia 2-2 Albania.", "The results?")),
    ("brand names", answer("GitHub, YouTube, LinkedIn, PayPal, iPhone, MySQL, PostgreSQL and JavaScript are all well known.", "Brands?")),
    ("tongue twister", answer("She sells seashells by the seashore. The shells she sells are surely seashells.", "A tongue twister.")),
    ("a very long word", answer("Das Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz war ein Gesetz.", "Was war das Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz?")),
    # markers and markup that are talked about
    ("think in code marks", answer("Put the thoughts between `<think>` and `</think>` so that the parser finds them.", "How?")),
    ("think asked for", answer("The model writes <think> before it answers.", "What does <think> mean?")),
    ("end token explained", answer("`<|im_end|>` closes a turn.", "What closes a turn?")),
    ("end token asked for", answer("<|im_end|> closes a turn.", "What is <|im_end|> for?")),
    ("call explained", answer('```\n<tool_call>\n{"name": "x"}\n</tool_call>\n```', "What does a call look like?")),
    ("markdown strike", answer("The price is <s>30</s> 20 euros now.", "The price?")),
    ("html", answer("<div><div><div><p>Text</p></div></div></div>", "Nested divs.")),
    ("mojibake explained", answer('The bytes of "é" then look like "Ã©".', "My file shows cafÃ© instead of café, why?")),
    ("replacement explained", answer("U+FFFD (�) stands for what could not be decoded.", "What is the black diamond?")),
    ("dialogue asked for", answer("User: Hello?\nAssistant: Good morning!", "Write a dialogue of a user and an assistant.")),
    ("listing", answer("User: root\nHost: db1\nPort: 5432", "The connection?")),
    ("transcript", answer("ANNA: Hello? Hello?\nBEN: Can you hear me?\nANNA: Hello?", "A scene on the phone.")),
    # copies that were asked for
    ("repeat after me", answer(PROSE, f"Repeat after me: {PROSE}")),
    ("spelling", answer(PROSE, f"Correct the spelling: {PROSE}")),
    ("quoted", answer('"It carries the water of the melting snow."', f"Quote one sentence: {PROSE}")),
    ("short extract", answer("the meadows beside it", f"What is under water? {PROSE}")),
    # tools and JSON
    ("call", answer("", finish="tool_calls", calls=(("get_tide", '{"port":"Oslo"}'),), tools=(TOOL,))),
    ("call, tools unknown", answer(None, finish="tool_calls", calls=(("get_tide", '{"port":"Oslo"}'),))),
    ("two calls", answer("", finish="tool_calls", calls=(("get_tide", '{"port":"Oslo"}'), ("get_tide", '{"port":"Bergen"}')), tools=(TOOL,))),
    ("no arguments", answer("", finish="tool_calls", calls=(("get_tide", ""),), tools=(TOOL,))),
    ("text beside a call", answer("I will look.", finish="tool_calls", calls=(("get_tide", "{}"),), tools=(TOOL,))),
    ("JSON", answer('{"color": "red"}', response_format={"type": "json_object"})),
    ("JSON as example", answer('```json\n{"a": 1}\n```', "An example?")),
    ("nonce", answer("The code is kite-52.", nonce="KITE-52")),
    ("thoughts apart", answer("It is 4.", "2+2?", reasoning="The user wants a sum.")),
    # listings that nobody announced
    ("access log", answer("".join(f'127.0.0.1 - - [10/Oct/2025:13:55:3{n} +0000] "GET / HTTP/1.1" 200 612\n' for n in range(5)))),
    ("addresses", answer("".join(f"10.0.0.{n}\n" for n in range(1, 9)))),
    ("hardware addresses", answer("".join(f"00:1b:63:84:45:e{n}\n" for n in range(8)))),
    ("versions", answer("".join(f"libfoo-{n} (1.{n}.2-{n}+deb12u1)\n" for n in range(8)))),
    (
        "change log",
        answer(
            "\n".join(
                f"libtide ({n}.2.0-1) unstable; urgency=medium\n\n  * New upstream release; Closes: #6172{n}5\n"
                f"  * d/rules: drop dh_auto_test\n\n -- Anna Weber <anna@tide.example>  Mon, 0{n} Aug 2022 20:02:18 +0200\n"
                for n in range(1, 5)
            )
        ),
    ),
    (
        "configuration",
        answer(
            'SectionDevice."Headset" {\n\tComment "Headset"\n\n\tEnableSequence [\n\t\tcset "name=\'Headset Mic Switch\' on"\n\t]\n\n'
            '\tValue {\n\t\tCapturePriority 300\n\t\tCapturePCM "hw:${CardId},7"\n\t\tJackControl "Headset Mic Jack"\n\t}\n}'
        ),
    ),
    ("modules", answer("".join(f"tide.model.{name}.Reader\n" for name in ("port", "lake", "river", "harbour", "pier", "quay", "dock", "lock")))),
    ("zeros", answer("0, 0, 1, 2, " + "0, " * 30 + "0", "Give me the vector with all zeros but three.", "length")),
    ("digits of a fraction", answer("0." + "3" * 60, "Write 1/3 as a decimal.", "length")),
    ("words that begin alike", answer("She will work worker by worker, and the play player number two wrote is in the house.")),
    ("marks in turn", answer(PROSE + "And so on... -- or not; -- ----- He said: \"Well...,\" and left.")),
]  # fmt: skip


@pytest.mark.parametrize("exchange", [h[1] for h in HEALTHY], ids=[h[0] for h in HEALTHY])
def test_a_healthy_answer_passes(exchange: Exchange) -> None:
    assert found(exchange) == ("PASSED", ())


@pytest.mark.parametrize(
    "exchange",
    [
        answer(None, finish="content_filter"),
        answer("", finish="abort"),
        answer(" ", finish="length", params={"max_tokens": 1}),
    ],
)
def test_an_answer_that_had_not_to_come_is_no_fault(exchange: Exchange) -> None:
    assert found(exchange)[1] == ()


def taken_apart(exchange: Exchange) -> Exchange:
    """Return the exchange with its answer's letters and accents apart."""
    assert exchange.answer is not None
    text = unicodedata.normalize("NFD", exchange.answer.text or "")
    return replace(exchange, answer=replace(exchange.answer, text=text))


APART = [(name, taken_apart(one)) for name, one in HEALTHY if taken_apart(one) != one]


@pytest.mark.parametrize("exchange", [a[1] for a in APART], ids=[a[0] for a in APART])
def test_letters_taken_apart_from_their_accents_are_the_same_text(exchange: Exchange) -> None:
    """Some keyboards and file systems write decomposed text; nobody sees a difference."""
    assert found(exchange) == ("PASSED", ())
