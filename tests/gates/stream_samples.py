"""Texts that a stream monitor must stop, and healthy look-alikes that it must let through."""

from __future__ import annotations

import base64
import json
import random

_random = random.Random(7)

PROSE = (
    "The river rises in a shallow basin north of the old town and gathers three small streams before "
    "it reaches the mill. In spring the meadows beside it stand under water for a week or two, and "
    "the farmers there know to move their sheep early. Nobody remembers when the bridge was built, "
    "but its middle pier carries a date that most people read as 1742. Every few years someone asks "
    "whether it should be widened, and every time the answer is the same: leave it as it is. "
)

# (name, what was asked, text, the reason that must be told)
BAD: list[tuple[str, str, str, str]] = [
    ("one mark to the limit", "Name three fruits.", "!" * 200, "stream_loop"),
    ("a good head, then marks", "Tell me of the river.", PROSE + "!" * 300, "stream_loop"),
    ("one capital letter", "Hi", PROSE + "G" * 900, "stream_loop"),
    ("slashes without end", "Call the tool.", "/" * 1200, "stream_loop"),
    ("a syllable without blanks", "Hi", "ela" * 400, "stream_loop"),
    ("two words", "Fix the bug.", PROSE + "let me " * 200, "stream_loop"),
    ("one sentence", "Help.", "I am sorry, but I cannot help with that request today. " * 40, "stream_loop"),
    ("a paragraph", "Tell me.", PROSE[:400] * 14, "stream_loop"),
    ("a sentence per line", "Tell me.", "The mill stands by the river.\n" * 60, "stream_loop"),
    ("a list item for ever", "List trees.", "- oak tree\n" * 400, "stream_loop"),
    ("a row for ever", "Table.", "| node | state |\n|---|---|\n" + "| a | ok |\n" * 400, "stream_loop"),
    ("Chinese loop", "你好", "我很抱歉，" * 120, "stream_loop"),
    ("emoji loop", "Hello", "🎉🎈" * 900, "stream_loop"),
    ("wish without the number", "Say hello ten times.", "hello " * 900, "stream_loop"),
    ("a loop after closed code", "Code?", "```python\nx = 1\n```\n" + "and so " * 100, "stream_loop"),
    ("for ever inside code", "Code?", "```python\n" + "x = x + 1\n" * 900, "stream_loop_in_code"),
    ("blanks in JSON", "JSON please.", '{"color":' + " " * 900, "stream_whitespace"),
    ("newlines in JSON", "JSON please.", '{"color":' + "\n" * 900, "stream_whitespace"),
    ("mixed blanks", "JSON please.", "{" + "\n\t  " * 300, "stream_whitespace"),
    ("broken characters", "Reply in Czech.", "Dnes je krásný \ufffd\ufffdas a jedeme na v\ufffd\ufffdlet do Br\ufffda k\ufffd\ufffd", "stream_broken_characters"),
    ("pads as text", "Describe it.", "A photo of <pad><pad><pad><pad><pad><pad>", "stream_suspicious_tokens"),
    ("reserved as text", "Hi", "Sure <|reserved_special_token_12|>" * 6, "stream_suspicious_tokens"),
    ("unused as text", "Hi", "".join(f"<unused{i}>" for i in range(9)), "stream_suspicious_tokens"),
    ("doubled words", "Where is it?", " ".join(f"{w} {w}" for w in PROSE.split()[:60]), "stream_stutter"),
]  # fmt: skip

_ROWS = "| host | state |\n|---|---|\n" + "".join(f"| node-{i} | ok |\n" for i in range(60))
_GETTERS = "".join(
    f"def get_{c}(self):\n    return self._{c}\n\n" for c in "abcdefghijklmnopqrstuvwxyz"
)
_BASE64 = base64.b64encode(_random.randbytes(1200)).decode()

# (name, what was asked, text)
HEALTHY: list[tuple[str, str, str]] = [
    ("prose", "Tell me of the river.", PROSE),
    ("rulers", "A report.", f"Title\n{'=' * 80}\n{PROSE}\n{'-' * 120}\n{'─' * 100}\n{PROSE}"),
    ("dots of a table of contents", "Contents.", "".join(f"Chapter {i} {'.' * 70} {i * 9}\n" for i in range(20))),
    ("form lines", "A form.", "Name: " + "_" * 120 + "\nDate: " + "_" * 60),
    ("padding", "Align it.", "left" + " " * 200 + "right\n" + "a" + " " * 70 + "b"),
    ("table", "Status of 60 hosts.", _ROWS),
    ("equal rows", "Empty table with 14 rows.", "| a | b |\n|---|---|\n" + "|   |   |\n" * 14),
    ("equal checklist items", "A checklist.", "- [ ] to do\n" * 20),
    ("SQL rows", "Insert 30 rows.", "INSERT INTO t VALUES\n" + "(?, ?, ?),\n" * 30 + "(?, ?, ?);"),
    ("base64 of zeros", "Base64 of 96 zero bytes.", "A" * 128),
    ("base64", "Encode it.", _BASE64),
    ("hex of zeros", "Hex dump of 48 zero bytes.", "00000000  " + "00 " * 48),
    ("hex dump", "Dump.", "".join(f"{i:08x}  " + "00 " * 16 + "\n" for i in range(0, 400, 16))),
    ("periodic decimals", "First 60 digits of 1/7.", "0." + "142857" * 10),
    ("a third", "One third with 200 digits.", "0." + "3" * 200),
    ("zeros of a matrix", "A 16 by 16 zero matrix.", ("[" + "0, " * 15 + "0],\n") * 16),
    ("nulls", "An array of 60 nulls.", "[" + "null, " * 59 + "null]"),
    ("minified JSON", "12 sensors.", json.dumps([{"id": i, "t": 20, "ok": True} for i in range(60)], separators=(",", ":"))),
    ("equal JSON cells", "40 flags.", '[' + '{"ok":true},' * 40 + ']'),
    ("getters", "Getters in Python.", "```python\n" + _GETTERS + "```\nThat is all."),
    ("equal lines in code", "Blink.", "```c\n" + "led_on(); wait(5); led_off(); wait(5);\n" * 40 + "```\n"),
    ("code without a fence", "Complete.", "    nop;\n" * 30),
    ("nested fence", "How do I write code in Markdown?", "````md\n```python\nx = 1\n```\n````\n" + PROSE),
    ("ten times", "Say thank you ten times.", "thank you\n" * 10),
    ("twenty sentences", "Write it.", "I will not talk in class during the lesson again.\n" * 10),
    ("a hundred lines", "Write 'I will not talk in class' 100 times.", "I will not talk in class\n" * 100),
    ("refrain", "A song.", ("Row, row, row your boat,\nGently down the stream.\n" + PROSE[:90] + "\n") * 4),
    ("twenty emoji", "20 party emojis please.", "🎉" * 20),
    ("a hundred emoji", "100 party emojis please.", "🎉" * 100),
    ("laughing", "Tell a joke.", "ha" * 30 + "! " + "no, " * 12 + "stop!!!!!!!!!!!!"),
    ("cut emoji", "Ten emojis.", "🎉🎉🎉\ufffd"),
    ("talking of U+FFFD", "What does \ufffd mean? I see \ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd", "You see \ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd where bytes are broken."),
    ("quoting a marker", "What are special tokens?", "Models use <pad>, <unk> and </s>; a pad fills the batch."),
    ("markers in code", "Show the vocabulary.", "```\n<pad>\n<unk>\n<s>\n</s>\n[PAD]\n<unused0>\n<unused1>\n```"),
    ("markers asked for", "Write <pad><pad><pad><pad> please.", "<pad><pad><pad><pad>"),
    ("doubled names", "Islands and fish.", "Bora Bora, Pago Pago, mahi mahi, bye bye, so so and had had it. " + PROSE),
    ("short", "Hi", "Hi"),
    ("empty", "Call the tool.", ""),
    ("Chinese", "你好", "河流从老城北面的浅盆地发源，在到达磨坊之前汇集了三条小溪。春天，河边的草地会被水淹没一两个星期。" * 2),
    ("box drawing", "Draw a tree.", "".join("│   " * 6 + f"├── file{i}.txt\n" for i in range(20))),
    ("markdown heading ruler", "Split it.", "~~~~~~~~~~~~~~~~~~~~~~~~~~~\n" + PROSE),
    ("wide table ruler", "Table.", "|" + "-----------|" * 20 + "\n" + "|" + " x |" * 20),
]  # fmt: skip
